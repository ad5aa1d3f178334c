"""Pages about runs: one HTML file each that needs nothing else, with figures drawn by hand as SVG."""
