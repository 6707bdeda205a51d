"""The loop, the criteria that drive it, the candidates it looks at and the rules that end it."""
