"""The Python way of the command: `fiol.train`, `fiol.read`, and the models that they make and that files hold."""
