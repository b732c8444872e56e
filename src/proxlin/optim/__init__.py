"""The default method's step as a torch optimiser, for anybody's training loop."""

from proxlin.optim.probed import Probed

__all__ = ["Probed"]
