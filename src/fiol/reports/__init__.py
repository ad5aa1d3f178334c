"""HTML reports about runs: one file each, with SVG figures and without dependencies."""
