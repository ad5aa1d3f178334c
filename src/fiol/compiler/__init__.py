"""Components as compiled values, and the hash by which edited code is compiled anew."""
