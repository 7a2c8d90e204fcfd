"""What Hydra finds as ``hydra_plugins.mfbo``: the sweeper and its defaults, read at the start of every application."""

# no annotations as text here: Hydra runs this file without making it a module, and dataclasses would look for one
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.plugins import Plugins
from hydra.errors import CompactHydraException
from hydra.plugins.sweeper import Sweeper


@dataclass
class MfboSweeperDefaults:
    """The settings of ``hydra/sweeper=mfbo``.

    Attributes:
        capital: What may be spent, in the unit of the costs; the number of jobs where there is no fidelity.
        fidelity: The override whose values are the fidelities, as ``epochs`` in ``epochs=3,9,27``.
        costs: What a job costs at each of its values; the values themselves if not given.
        maximize: Whether the applications return what is to be large.
        strategy: A strategy by its name, such as ``ExpectedImprovement``.
        seed: The seed of its random choices.
        workers: Jobs that are launched together.
        params: Overrides to search, beside those of the command line, which take the place of these.
    """

    _target_: str = "hydra_plugins.mfbo.MfboSweeper"
    capital: float = 20.0
    fidelity: str | None = None
    costs: list[float] | None = None
    maximize: bool = False
    strategy: str = "MFGPUCB"
    seed: int = 0
    workers: int = 1
    params: dict[str, Any] = field(default_factory=dict)


ConfigStore.instance().store(group="hydra/sweeper", name="mfbo", node=MfboSweeperDefaults, provider="mfbo_torch")


class MfboSweeper(Sweeper):
    """Chooses the overrides of every job, and at which fidelity; each job returns its value."""

    def __init__(self, params: dict[str, Any] | None = None, **settings: Any) -> None:
        self.params, self.settings = dict(params or {}), settings
        self.hydra_context: Any = None
        self.config: Any = None
        self.launcher: Any = None

    def setup(self, *, hydra_context: Any, task_function: Any, config: Any) -> None:
        how = {"hydra_context": hydra_context, "task_function": task_function, "config": config}
        self.hydra_context, self.config = hydra_context, config
        self.launcher = Plugins.instance().instantiate_launcher(**how)

    def sweep(self, arguments: list[str]) -> Any:
        """Spend the capital; the jobs' own results are in their folders, the best in ``optimization_results.yaml``."""
        from mfbo_torch.hydra.sweep import spend  # torch, which applications that do not sweep go without
        from mfbo_torch.loop.early_failures import Hopeless
        from mfbo_torch.utils.errors import SettingError

        typed = {argument.partition("=")[0] for argument in arguments}
        given = [*(f"{name}={value}" for name, value in self.params.items() if name not in typed), *arguments]
        overrides = OverridesParser.create(config_loader=self.hydra_context.config_loader).parse_overrides(given)
        try:
            return spend(overrides, self._launch, self.config.hydra.sweep.dir, **self.settings)
        except (Hopeless, SettingError) as error:
            raise CompactHydraException(f"{type(error).__name__}: {error}") from error  # which Hydra shows as one line

    def _launch(self, batch: Sequence[Sequence[str]], first: int) -> Sequence[Any]:
        self.validate_batch_is_legal(batch)
        return self.launcher.launch(batch, initial_job_idx=first)
