"""The page behind `bilsh view`: a small local server, and a front end that is shipped as it is written.

It holds no search logic: every answer is a function of :mod:`bilsh.workflows`.
"""
