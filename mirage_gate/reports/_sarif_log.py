"""The objects of a SARIF 2.1.0 log, as far as one is written here.

Names and meanings are those of the standard's section 3. What is None is left out of the log;
all else is written, also where it is the standard's default: a result without a level would take
that of its rule.
"""

from __future__ import annotations

from typing import Any

import msgspec


class Object(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """What all objects of a log have in common: how they are written."""


class Message(Object):
    """A text, in which links are written ``[text](id of a related location)``."""

    text: str


class MultiformatMessageString(Object):
    """A rule's text, and the same in Markdown."""

    text: str
    markdown: str | None = None


class ArtifactLocation(Object):
    """A file. ``uri_base_id`` names what a relative ``uri`` is relative to."""

    description: Message | None = None
    uri: str | None = None
    uri_base_id: str | None = None


class Region(Object):
    """A part of a file; lines and columns from 1, ``end_column`` is one past the last."""

    end_column: int
    end_line: int
    start_column: int
    start_line: int


class PhysicalLocation(Object):
    """A file and the region in it; the whole file without one."""

    artifact_location: ArtifactLocation
    region: Region | None = None


class Location(Object):
    """A place. ``id`` is what a message links to."""

    physical_location: PhysicalLocation
    id: int | None = None
    message: Message | None = None


class ThreadFlowLocation(Object):
    """One step of a trace."""

    location: Location


class ThreadFlow(Object):
    """The steps of a trace, in order."""

    locations: list[ThreadFlowLocation]


class CodeFlow(Object):
    """A trace; those of a megakernel have one thread each."""

    thread_flows: list[ThreadFlow]


class Suppression(Object):
    """Why a result does not count."""

    kind: str
    justification: str


class Result(Object):
    """One finding, or several of one rule on one line."""

    message: Message
    level: str
    locations: list[Location]
    properties: dict[str, Any]
    rule_id: str
    rule_index: int
    code_flows: list[CodeFlow] | None = None
    partial_fingerprints: dict[str, str] | None = None
    related_locations: list[Location] | None = None
    suppressions: list[Suppression] | None = None


class ReportingConfiguration(Object):
    """How much a rule's results weigh."""

    level: str


class ReportingDescriptor(Object):
    """A rule."""

    id: str
    default_configuration: ReportingConfiguration
    full_description: MultiformatMessageString
    help: MultiformatMessageString
    help_uri: str
    name: str
    properties: dict[str, Any]
    short_description: MultiformatMessageString


class ToolComponent(Object):
    """The program and its rules."""

    name: str
    information_uri: str
    rules: list[ReportingDescriptor]
    semantic_version: str
    version: str


class Tool(Object):
    """What made the log."""

    driver: ToolComponent


class Notification(Object):
    """What went wrong, besides what was found."""

    message: Message
    level: str
    locations: list[Location] | None = None


class Invocation(Object):
    """The run: its command line, and how it ended."""

    execution_successful: bool
    exit_code: int
    command_line: str | None = None
    tool_execution_notifications: list[Notification] | None = None
    working_directory: ArtifactLocation | None = None


class Run(Object):
    """All that one run has to say. ``column_kind`` is what columns count."""

    tool: Tool
    column_kind: str
    invocations: list[Invocation]
    properties: dict[str, Any]
    results: list[Result]
    original_uri_base_ids: dict[str, ArtifactLocation] | None = None


class SarifLog(Object):
    """The whole log."""

    schema: str = msgspec.field(name="$schema")
    version: str
    runs: list[Run]
