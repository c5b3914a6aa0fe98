"""Where and how programs run: devices, processes, precision, compiled programs, signals.

No equation knows of any of it, `precision` apart, which says how exactly networks multiply.
"""
