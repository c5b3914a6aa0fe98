"""Where and how programs run: devices, processes, precision, compiled programs, signals.

No equation depends on it, except through `precision`: how exactly networks multiply.
"""
