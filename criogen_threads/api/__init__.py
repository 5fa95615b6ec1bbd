"""The HTTP API: ``path("api/", include("criogen_threads.api.urls"))``.

JSON in, JSON out; errors are ``application/problem+json`` with the ``code`` that the Python API has. Reads are pages
``{"results": […], "next": address or null}``. Each view asks the policy, and what a user may not see is not there.
"""
