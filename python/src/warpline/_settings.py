"""From what connect() and remote() are given to the variables that the client library reads."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Union

from . import _files

StrPath = Union[str, "os.PathLike[str]"]
OptionValue = Union[str, int, bool, "os.PathLike[str]", Sequence[str]]


def listed(what: str, entries: str | int | Iterable[str | int]) -> str:
    """A list as the client reads it, with commas; one entry stands for a list of one. @raises ValueError if it is empty."""
    if isinstance(entries, (str, int)):
        entries = [entries]
    words = []
    for entry in entries:
        if isinstance(entry, bool) or not isinstance(entry, (str, int)):
            raise TypeError(f"{what}: {entry!r} is neither text nor a number")
        words.append(str(entry).strip())
    if not words or not all(words):
        raise ValueError(f"{what}: an empty list, or an empty entry, names nothing")
    return ",".join(words)


def existing_file(what: str, path: StrPath) -> str:
    """The absolute path of a file, lest it depend on who reads it where. @raises FileNotFoundError"""
    absolute = Path(path).expanduser().absolute()
    if not absolute.is_file():
        raise FileNotFoundError(f"{what}: there is no file {absolute}")
    return str(absolute)


def text_of(name: str, value: OptionValue) -> str:
    """The value of an option as it is written in the environment."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        return str(value)
    if isinstance(value, os.PathLike):
        return str(Path(value).expanduser().absolute())
    if isinstance(value, Sequence):
        return listed(name, value)
    raise TypeError(f"{name}: {value!r} is no value of an option")


def read_options(environment: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """The client's options, each with its variable, and what is wrong with their values in this environment ('': nothing)."""
    done = _files.run_command(["options", "--json"], environment)
    said: dict[str, Any] = json.loads(done.stdout)
    return {option["name"]: option["environment"] for option in said["options"]}, said["problem"].strip()


@dataclass(frozen=True)
class Settings:
    """What a program is to use; None: as the environment and the configuration file say. See connect() for the meanings."""

    servers: str | Sequence[str] | None = None
    devices: int | str | Sequence[int | str] | None = None
    memory: str | int | None = None
    cert: StrPath | None = None
    key: StrPath | None = None
    ca: StrPath | None = None
    config: StrPath | None = None
    options: Mapping[str, OptionValue] = field(default_factory=dict)

    def named(self) -> dict[str, str]:
        """The variables of all but `options`. @raises ValueError, TypeError, FileNotFoundError"""
        variables = {}
        if self.servers is not None:
            variables["WARPLINE_SERVERS"] = listed("servers", self.servers)
        if self.devices is not None:
            variables["CUDA_VISIBLE_DEVICES"] = listed("devices", self.devices)
        if self.memory is not None:
            if isinstance(self.memory, bool) or not isinstance(self.memory, (str, int)):
                raise TypeError(f"memory: {self.memory!r} is neither a number of bytes nor text such as '8GiB'")
            variables["WARPLINE_MEMORY"] = str(self.memory)
        files = {"WARPLINE_CERT": self.cert, "WARPLINE_KEY": self.key, "WARPLINE_CA": self.ca, "WARPLINE_CONFIG": self.config}
        for variable, path in files.items():
            if path is not None:
                variables[variable] = existing_file(variable.removeprefix("WARPLINE_").lower(), path)
        return variables

    def variables(self, environment: Mapping[str, str]) -> dict[str, str]:
        """What is to be set in this environment.

        @raises  as named(); TypeError for an option that there is not, ValueError for a value that the client refuses
        @blocks  for one run of the `warpline` command
        """
        variables = self.named()
        known, problem = read_options({**environment, **variables})
        for name, value in self.options.items():
            if name not in known:
                close = difflib.get_close_matches(name, known, 1)
                raise TypeError(f"there is no option {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""))
            if known[name] in variables:
                raise TypeError(f"{name}: given twice")
            variables[known[name]] = text_of(name, value)
        if self.options:
            _, problem = read_options({**environment, **variables})
        if problem:
            raise ValueError(problem)
        return variables
