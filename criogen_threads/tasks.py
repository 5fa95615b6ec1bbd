"""Where ``app.autodiscover_tasks()`` of Celery looks; nothing else imports this."""

from criogen_threads.engine.dispatch.celery import run_job

__all__ = ["run_job"]
