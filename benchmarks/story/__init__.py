"""One benchmark story: all sections in one run, their numbers as JSON, and the page that is made of them."""
