"""The settings of configs/plot.yaml, checked all at once, and which kinds of figure take which of them."""

import json
from typing import Annotated, Any, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from impatient.checks import ConfigError

TAKEN_BY = {
    **dict.fromkeys(("metrics", "x", "logx", "logy"), ("curves",)),
    **dict.fromkeys(("panels", "at"), ("curves", "classes")),
}
"""The settings that not every kind takes, and the kinds that do."""

one_is_a_list_too = BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
Names = Annotated[list[str], one_is_a_list_too]
Formats = Annotated[list[Literal["png", "pdf", "svg"]], one_is_a_list_too]


class Settings(BaseModel):
    """As in configs/plot.yaml, which says what each does; the descriptions say what a value must be."""

    model_config = ConfigDict(strict=True, frozen=True)

    runs: Names = Field([], description="a list of folders, such as [logs/multiruns/<folder>]")
    out: Annotated[str, Field(pattern=r"\S")] | int | float | None = Field(None, description="one folder, or null")
    kind: Literal["curves", "participation", "staleness", "classes", "partition"] = "curves"
    metrics: Names | None = Field(None, description="a list of names, such as [train/loss], or null")
    x: Literal["round", "update", "samples", "bytes", "seconds"] = "round"
    logx: bool = Field(False, description="true or false")
    logy: bool = Field(False, description="true or false")
    panels: str | None = Field("auto", description="one config key, auto or null")
    at: Annotated[int, Field(ge=0)] | None = Field(None, description="an integer >= 0, or null")
    unfinished: Literal["draw", "drop"] = "draw"
    formats: Formats = Field(["png", "pdf"], min_length=1, description="one or more of png, pdf, svg")

    def ignored(self) -> list[str]:
        """A note on each setting that was set and that this kind of figure does not take."""
        notes = []
        for key, kinds in TAKEN_BY.items():
            value = getattr(self, key)
            if self.kind not in kinds and value not in (Settings.model_fields[key].default, None):
                taken = f"kind={' and kind='.join(kinds)} {'does' if len(kinds) == 1 else 'do'}"
                notes.append(
                    f"{key}={shown(value)}: kind={self.kind} does not take {key}, {taken}; left out of account"
                )
        return notes


def checked(given: dict[str, Any]) -> Settings:
    """The settings, or one ConfigError with everything that is wrong with them."""
    try:
        return Settings(**given)
    except ValidationError as error:
        faults = []
        for key in dict.fromkeys(str(one["loc"][0]) for one in error.errors()):
            field = Settings.model_fields[key]
            must = field.description or f"one of {', '.join(get_args(field.annotation))}"
            faults.append(f"{key}={shown(given[key])}: must be {must}")
        raise ConfigError(*faults) from None


def shown(value: Any) -> str:
    """As on the command line: [a,b], null, true."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace('"', "")
