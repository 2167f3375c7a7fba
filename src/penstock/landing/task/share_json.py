"""Jobs and results of an exchange as versioned JSON, next to those of `message_json.py`."""

from __future__ import annotations

import json

from penstock.core.serialization import file_from_data, file_to_data
from penstock.landing.task import message_json
from penstock.landing.task.messages import Job
from penstock.landing.task.share import ShareJob, ShareResult


def share_job_to_json(job: ShareJob) -> str:
    """Write a job."""
    return json.dumps(
        {
            "v": message_json.JOB_VERSION,
            "share": [message_json.exchange_file_to_data(each) for each in job.share],
            "number": job.number,
            "prefix": job.prefix,
            "table": job.table,
            "destination": message_json.destination_to_data(job.write_target),
            "faults": job.crash_plan,
        }
    )


def any_job_from_json(text: str) -> Job | ShareJob:
    """Read a job of either stage. Raises InvalidError (P620) for another version."""
    data = message_json.load(text, "job")
    if "share" not in data:
        return message_json.job_from_data(data)
    return ShareJob(
        data["number"],
        data["prefix"],
        data["table"],
        message_json.destination_from_data(data["destination"]),
        tuple(map(message_json.exchange_file_from_data, data["share"])),
        data["faults"],
    )


def share_result_to_json(result: ShareResult) -> str:
    """Write a result."""
    return json.dumps(
        {
            "v": message_json.JOB_VERSION,
            "number": result.number,
            "files": [file_to_data(each) for each in result.files],
            "error": None if result.error is None else message_json.error_to_data(result.error),
        }
    )


def share_result_from_json(text: str) -> ShareResult:
    """Read a result. Raises InvalidError (P620) for another version."""
    data = message_json.load(text, "result")
    error = message_json.error_from_data(data["error"]) if data["error"] else None
    return ShareResult(data["number"], tuple(map(file_from_data, data["files"])), error)
