"""Makes torch Smolder when it is imported: the first module that multiprocessing's server of forks preloads."""

from smolder.torch import install

install()
