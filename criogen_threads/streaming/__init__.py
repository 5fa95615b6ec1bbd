"""The feed: what happens in a thread, as it happens, to every socket and stream that watches it.

``hub`` hears the runs of this process; ``layer`` carries that to other processes; ``relay`` keeps what a web process
knows of the threads that it watches, each ``watched``, its open message in ``parts``, the rest of it by ``reading``;
``feed`` is one client's cursor into it, ``window`` how much may be under way to that client. ``agui`` projects events
to AG-UI, made of ``wires``; ``history`` and ``approvals`` do that with messages and approvals; ``showing`` leaves out
what a person may not see; ``rendering`` makes HTML of Markdown. The doors are ``consumers`` (websocket: ``routing``,
``frames``, ``subscribing``, ``commands``, ``visitor``), ``sse``, ``polling`` and ``endpoint`` (``urls``; one run of it
is ``agui_run``); ``lifespan`` stops the process gracefully.
"""
