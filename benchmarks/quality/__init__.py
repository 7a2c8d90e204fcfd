"""What runs come to at equal capital: each study is a grid of problems, methods, capitals and seeds."""
