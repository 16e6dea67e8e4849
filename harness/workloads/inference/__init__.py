"""What runs beside a server of inference: it starts it, waits for it, sends requests. Python 3.9, nothing installed."""
