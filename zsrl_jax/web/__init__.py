"""A page where a stranger tells the robot what to do: one file, no server, no installation.

The browser runs MuJoCo, the policy and the prompts; `client/` holds its sources, `parts` fetches
MuJoCo and three.js, `tracing` turns a domain's functions into tables that a browser can follow.
"""
