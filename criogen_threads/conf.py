"""Settings: one dict ``CRIOGEN_THREADS`` in the site's settings, read at each use.

Every key is a property here, with its meaning, unit and default. Unknown keys are a check warning.
"""

from __future__ import annotations

from typing import Any, Literal, cast

from django.conf import settings as django_settings

OnBusy = Literal["wait", "reject", "interrupt"]


class Settings:
    """The settings of criogen_threads, with their defaults."""

    @property
    def ON_BUSY(self) -> OnBusy:
        """What a call does on a busy thread: "wait" (default), "reject" or "interrupt"."""
        return cast("OnBusy", self._get("ON_BUSY", "wait"))

    @property
    def BUSY_TIMEOUT(self) -> float:
        """Seconds that a call waits for a busy thread before ``thread_busy``. Default 60."""
        return float(self._get("BUSY_TIMEOUT", 60))

    @property
    def LEASE_SECONDS(self) -> float:
        """Seconds after its last beat until a process counts as dead. Default 30."""
        return float(self._get("LEASE_SECONDS", 30))

    @property
    def HEARTBEAT_SECONDS(self) -> float:
        """Seconds between two beats of a process that runs turns; a third of the lease or less. Default 10."""
        return float(self._get("HEARTBEAT_SECONDS", 10))

    @property
    def GRACE_SECONDS(self) -> float:
        """Seconds that live runs get to finish when the process stops. Default 8."""
        return float(self._get("GRACE_SECONDS", 8))

    @property
    def DISPATCHER(self) -> str:
        """Where submitted runs execute: "in_process" (default), "tasks" (Django's Tasks), "celery", or the
        dotted path of a Dispatcher subclass."""
        return str(self._get("DISPATCHER", "in_process"))

    @property
    def MAX_RUNS(self) -> int:
        """Submitted runs at once in one process with the in-process dispatcher. Default 50."""
        return int(self._get("MAX_RUNS", 50))

    @property
    def MAX_RUNS_PER_USER(self) -> int | None:
        """Live and queued runs that one user may have at once, over all threads and processes; one more is
        ``too_many_runs``. Runs of the site's own code (no actor) do not count. Default None: no limit."""
        limit = self._get("MAX_RUNS_PER_USER", None)
        return None if limit is None else int(limit)

    @property
    def VISITOR_AGENTS(self) -> list[str]:
        """Names of the agents that people who have not signed in may talk to, and have a conversation handed over to;
        those that such an agent asks need not be named. Default: none, and so no visitors."""
        return list(self._get("VISITOR_AGENTS", []))

    @property
    def VISITOR_THREADS(self) -> int:
        """Conversations that visitors from one address may begin in VISITOR_SECONDS; one more is
        ``too_many_threads``. Default 10."""
        return int(self._get("VISITOR_THREADS", 10))

    @property
    def VISITOR_SECONDS(self) -> float:
        """Seconds that a conversation which a visitor began counts. Default 3,600, an hour."""
        return float(self._get("VISITOR_SECONDS", 3600))

    @property
    def VISITOR_RUNS(self) -> int:
        """Live and queued runs that visitors from one address may have at once; one more is ``too_many_runs``.
        Default 3."""
        return int(self._get("VISITOR_RUNS", 3))

    @property
    def TRUSTED_PROXIES(self) -> int:
        """Proxies of the site's own in front of it that each add to X-Forwarded-For. Default 0: the header is not
        read, and an address is that of the connection."""
        return int(self._get("TRUSTED_PROXIES", 0))

    @property
    def TICKET_SECONDS(self) -> float:
        """Seconds that a ticket for a new thread is good for. Default 86,400, a day."""
        return float(self._get("TICKET_SECONDS", 86_400))

    @property
    def WAITING_REQUESTS(self) -> int:
        """HTTP requests of one process that may wait for a run at once (``?wait``); one more is answered
        without waiting. Default 20."""
        return int(self._get("WAITING_REQUESTS", 20))

    @property
    def DATABASE_THREADS(self) -> int:
        """Threads (and so connections) for reads and saves in one process. Default 10."""
        return int(self._get("DATABASE_THREADS", 10))

    @property
    def TOOL_THREADS(self) -> int:
        """Threads for synchronous tools in one process. Default 40."""
        return int(self._get("TOOL_THREADS", 40))

    @property
    def MAX_MESSAGE_BYTES(self) -> int:
        """Largest message of a user, in bytes of UTF-8. Default 1,048,576."""
        return int(self._get("MAX_MESSAGE_BYTES", 1_048_576))

    @property
    def MAX_RESULT_BYTES(self) -> int:
        """Largest result of a tool, in bytes of UTF-8; a larger one is a tool error. Default 1,048,576."""
        return int(self._get("MAX_RESULT_BYTES", 1_048_576))

    @property
    def MODEL_RETRIES(self) -> int:
        """How often a model request that failed for a passing reason is sent again. Default 3."""
        return int(self._get("MODEL_RETRIES", 3))

    @property
    def MODEL_BACKOFF(self) -> float:
        """Seconds before the first repeat of a model request; doubled for each further one. Default 1."""
        return float(self._get("MODEL_BACKOFF", 1))

    @property
    def MODEL_TIMEOUT(self) -> float:
        """Seconds without any sign of a model before its request counts as failed. Default 120."""
        return float(self._get("MODEL_TIMEOUT", 120))

    @property
    def DATABASE_RETRY_SECONDS(self) -> float:
        """Seconds that a save is repeated while the database is away. Default 20."""
        return float(self._get("DATABASE_RETRY_SECONDS", 20))

    @property
    def POLICY(self) -> str:
        """Dotted path of the policy class: who may do what. Default "criogen_threads.policy.Policy"."""
        return str(self._get("POLICY", "criogen_threads.policy.Policy"))

    @property
    def CHANNEL_LAYER(self) -> str:
        """Alias of the channel layer that carries the feed between processes; none is needed for one process.
        Default "default"."""
        return str(self._get("CHANNEL_LAYER", "default"))

    @property
    def ALLOWED_ORIGINS(self) -> list[str]:
        """Origins besides the site's own that may open websockets, such as "https://app.example.com", or "*"
        for any. Default: none."""
        return list(self._get("ALLOWED_ORIGINS", []))

    @property
    def RECHECK_SECONDS(self) -> float:
        """Seconds between two looks at the session and the permissions of an open socket or stream. Default 60."""
        return float(self._get("RECHECK_SECONDS", 60))

    @property
    def SOCKET_SECONDS(self) -> float:
        """Seconds without a sign of life after which a socket is closed. Default 60."""
        return float(self._get("SOCKET_SECONDS", 60))

    @property
    def AGUI_CANCEL_ON_CLOSE(self) -> bool:
        """Whether a client that closes its AG-UI connection cancels the run: AG-UI has no other way to stop one.
        Default True. (A lost websocket never cancels.)"""
        return bool(self._get("AGUI_CANCEL_ON_CLOSE", True))

    @property
    def NOTIFY_EMAIL(self) -> bool:
        """Write to those who may answer an approval that it waits, and to who asked that it was answered, through
        Django's mail. Default False."""
        return bool(self._get("NOTIFY_EMAIL", False))

    @property
    def NOTIFY_WEBHOOK(self) -> str | None:
        """The http(s) address that is told the same, signed with NOTIFY_SECRET. Default None."""
        address = self._get("NOTIFY_WEBHOOK", None)
        return None if address is None else str(address)

    @property
    def NOTIFY_SECRET(self) -> str:
        """The key that webhooks are signed with; without one none is sent. Default ""."""
        return str(self._get("NOTIFY_SECRET", ""))

    @property
    def NOTIFY_SITE(self) -> str:
        """Where the site is, such as "https://example.com", for links to an approval's page. Default "": no link."""
        return str(self._get("NOTIFY_SITE", ""))

    @property
    def NOTIFY_RETRIES(self) -> int:
        """How often a notice that could not be sent is tried again. Default 5."""
        return int(self._get("NOTIFY_RETRIES", 5))

    @property
    def NOTIFY_BACKOFF(self) -> float:
        """Seconds before the first repeat of a notice; doubled for each further one. Default 2."""
        return float(self._get("NOTIFY_BACKOFF", 2))

    @property
    def IN_CALLING_THREAD(self) -> bool:
        """Run reads, saves and tools in the calling thread, without a beat: for a site's own ``TestCase``,
        whose transaction other threads cannot see. Default False; set by ``criogen_threads.testing``."""
        return bool(self._get("IN_CALLING_THREAD", False))

    def _get(self, key: str, default: Any) -> Any:
        return getattr(django_settings, "CRIOGEN_THREADS", {}).get(key, default)


settings = Settings()

KEYS = frozenset(name for name in vars(Settings) if name.isupper())
