"""The journal: every write of the package's rows, and nothing else.

``saves`` and ``atomic`` are the holder's; ``turns``, ``takes``, ``reopening`` and ``rewinds`` take a thread; ``posts``
are for anyone with the right to them; ``workers`` keeps the processes. They share ``lines`` (queued runs), ``limits``
(how many), ``leaving`` (what a thread goes on without), ``forks``, ``calls`` and ``branches``; ``leftovers`` finds what
nobody works on. ``pen`` writes below the lock, ``writing`` makes each write one transaction, ``statements`` compiles
what is written, ``driver`` sends it.
"""
