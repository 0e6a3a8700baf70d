"""Schemas of the actions of a server."""
from __future__ import annotations

from typing import Any

from nova_lite.api.openstack import parameters as p

Json = dict[str, Any]


def _body(action: str, argument: Json) -> Json:
    return {"type": "object", "properties": {action: argument}, "required": [action], "additionalProperties": False}


def no_argument(action: str) -> Json:
    """The body of an action without arguments; Nova takes whatever value stands there."""
    return _body(action, {})


_TYPE: Json = {"type": "string", "enum": ["HARD", "Hard", "hard", "SOFT", "Soft", "soft"]}
REBOOT = _body("reboot", {"type": "object", "properties": {"type": _TYPE}, "required": ["type"],
                          "additionalProperties": False})
LOCK = {"2.1": no_argument("lock"),
        "2.73": _body("lock", {"type": ["object", "null"], "additionalProperties": False, "properties": {
            "locked_reason": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00]*$"}}})}
RESET_STATE = _body("os-resetState", {"type": "object", "required": ["state"], "additionalProperties": False, "properties": {
    "state": {"type": "string", "enum": ["active", "error"]}}})
CHANGE_PASSWORD = _body("changePassword", {"type": "object", "required": ["adminPass"], "additionalProperties": False,
                                           "properties": {"adminPass": p.STRING}})
_FLAVOR: Json = {"type": ["string", "integer"], "minLength": 1, "maxLength": 255, "pattern": r"^[^\x00]*$",
                 "maximum": 0x7FFFFFFF}
RESIZE = _body("resize", {"type": "object", "required": ["flavorRef"], "additionalProperties": False, "properties": {
    "flavorRef": _FLAVOR, "OS-DCF:diskConfig": {"type": "string", "enum": ["AUTO", "MANUAL"]}}})
MIGRATE = {"2.1": no_argument("migrate"),
           "2.56": _body("migrate", {"type": ["object", "null"], "additionalProperties": False,
                                     "properties": {"host": {**p.HOST, "type": ["string", "null"]}}})}
TRIGGER_CRASH_DUMP = _body("trigger_crash_dump", {"type": "null"})
_IMAGE: Json = {"name": p.NAME, "metadata": p.METADATA}
_BACKUP: Json = {**_IMAGE, "backup_type": p.STRING, "rotation": p.NON_NEGATIVE_INTEGER}
CREATE_IMAGE = _body("createImage", {"type": "object", "properties": _IMAGE, "required": ["name"],
                                     "additionalProperties": False})
CREATE_BACKUP = _body("createBackup", {"type": "object", "properties": _BACKUP, "additionalProperties": False,
                                       "required": ["name", "backup_type", "rotation"]})
IMAGE_ANSWER = {"2.1": None, "2.45": {"type": "object", "properties": {"image_id": p.UUID}, "required": ["image_id"],
                                      "additionalProperties": False}}
CONSOLE_OUTPUT = _body("os-getConsoleOutput", {"type": "object", "additionalProperties": False, "properties": {
    # -1 and null: all of it
    "length": {"type": ["integer", "string", "null"], "pattern": r"^-?[0-9]+$", "minimum": -1, "maximum": 0x7FFFFFFF}}})
CONSOLE_OUTPUT_ANSWER: Json = {"type": "object", "properties": {"output": p.STRING}, "required": ["output"],
                               "additionalProperties": False}
