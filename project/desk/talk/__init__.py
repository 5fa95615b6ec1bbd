"""A conversation with the support desk in the terminal: what ``manage.py chat`` does.

``people`` are those who speak, ``lines`` is where their words come from, ``screen`` what is shown, ``turns``
what a turn looks like while it runs, ``commands`` the words that begin with a slash, ``talk`` the whole.
"""
