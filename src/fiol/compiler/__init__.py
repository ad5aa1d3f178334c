"""Components as compiled values, and the hash that tells when to compile anew."""
