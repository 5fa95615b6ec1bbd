"""The journal: every write of the package's rows, and what is read below their locks.

``saves`` and ``atomic`` are the holder's; ``turns``, ``takes``, ``reopening`` and ``rewinds`` take a thread; ``posts``
are for anyone with the right to them; ``trimming`` cuts off old history; ``workers`` keeps the processes. They share
``lines`` (queued runs), ``limits`` (how many), ``leaving`` (what a thread goes on without), ``forks``, ``calls``,
``branches``, ``askers`` (whose a run is), ``visiting`` (what visitors begin) and ``usages``. Agents that ask each
other: ``delegations`` takes the asked one's thread, ``memories`` finds it, ``families`` settles what a caller left,
``callers`` are the conversations above, where what waits below is shown. ``leftovers`` finds what nobody works on.

``holding`` and ``locks`` take the rows, ``pen`` writes below the lock, ``writing`` makes each write one transaction,
``statements`` compiles what is written, ``instances`` makes rows of what came back, ``driver`` sends it.
"""
