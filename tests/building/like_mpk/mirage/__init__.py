"""A package with the seams of MPK's: the classes and methods that a builder goes through.

Its generator is the emitter of these tests. Tensors have a shape and nothing in them.
"""

from .kernel import CyTBGraph as CyTBGraph
from .kernel import DTensor as DTensor
from .kernel import KNGraph as KNGraph
from .mpk.persistent_kernel import PersistentKernel as PersistentKernel
