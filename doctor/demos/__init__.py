"""Ten hosts from real cases, simulated and judged through the real line. Data, and the door to it."""
