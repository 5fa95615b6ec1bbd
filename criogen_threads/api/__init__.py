"""The HTTP API: ``path("api/", include("criogen_threads.api.urls"))``.

JSON in, JSON out; errors are ``application/problem+json`` with the ``code`` that the Python API has. Reads are pages
``{"results": […], "next": address or null}``. Each view asks the policy, and what a user may not see is not there.

The views are ``agents``, ``threads``, ``contents``, ``feed``, ``runs`` and ``approvals``, on top of ``base``.
``reading`` and ``serializers`` check what comes in, ``showing``, ``pagination`` and ``problems`` shape what goes out,
``waiting`` holds a request, ``permissions`` asks who somebody is; ``urls`` are the addresses; ``shapes``, ``openapi``
and ``schema`` describe it all.
"""
