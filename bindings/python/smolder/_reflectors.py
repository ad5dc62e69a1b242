"""Householder reflectors I - tau v v^H, of which QR is made, and what products of them do to matrices."""

from __future__ import annotations

import numpy

from smolder import _core, _factors, return_types
from smolder._autocast import listed
from smolder._batches import with_leading_batches
from smolder._creation import eye
from smolder._host_function import HostFunction
from smolder._out import takes_out
from smolder._tensor import kind_name
from smolder._typing import Tensor


class _Geqrf(HostFunction):
    @staticmethod
    def forward(ctx, a):
        return _reflectors(a)

    @staticmethod
    def backward(ctx, of_a, of_tau):
        raise NotImplementedError("the derivative for 'geqrf' is not implemented.")


@with_leading_batches
def _reflectors(a):
    """R, with the vectors of reflectors below its diagonal, and tau."""
    if _factors._by_solver(a):
        factors, tau = _core._cuda_qr(_factors._t(a))
        return _factors._t(factors), tau
    return tuple(_factors._arrays(_raw_qr, a))


def _raw_qr(a):
    transposed, tau = numpy.linalg.qr(a, "raw")
    return numpy.swapaxes(transposed, -1, -2), tau


def _check_matrix(name, a):
    _check_rank(name, "input", a)
    if a.dtype not in (_core.float32, _core.float64, _core.complex64, _core.complex128):
        raise NotImplementedError(f"\"{name.rpartition('.')[2]}_cpu\" not implemented for '{kind_name(a.dtype)}'")


def _check_rank(name, argument, a):
    if a.dim() < 2:
        raise RuntimeError(f"torch.{name}: {argument} must have at least 2 dimensions.")


def _check_batch(name, argument, found, expected, rank, a):
    if rank != a.dim():
        fewer = "one dimension less than" if argument == "tau" else "the same number of dimensions as"
        raise RuntimeError(
            f"torch.{name}: Expected {argument} to have {fewer} input, but got {argument}.ndim equal to {len(found)} and "
            f"input.ndim is equal to {a.dim()}"
        )
    lead = found[: len(found) - len(expected)]
    if lead != a.shape[:-2]:
        raise RuntimeError(
            f"torch.{name}: Expected batch dimensions of {argument} to be equal to input.shape[:-2], but got {list(lead)}"
        )


@takes_out
@listed("geqrf")
def geqrf(input: Tensor) -> tuple[Tensor, Tensor]:
    """R in the upper triangle of `a`, and below it the reflectors whose product with factors `tau` is Q."""
    _check_matrix("geqrf", input)
    return return_types.geqrf(*_Geqrf.apply(input))


class _Product:
    """The product Q = I - V T V^H of reflectors, whose vectors are the columns of V.

    T is the inverse of the upper triangle of V^H V with 1 / tau in its diagonal, found without dividing by tau, which is 0
    where a reflector is none.
    """

    def __init__(self, a, tau):
        rows, count = a.size(-2), tau.size(-1)
        like = {"dtype": a.dtype, "device": a.device}
        self.v = _core.tril(a[..., :count], -1) + eye(rows, count, **like)
        self.vh = self.v.mH if a.dtype.is_complex else self.v.mT
        self.scaled = tau.unsqueeze(-1) * _core.triu(self.vh @ self.v, 1)
        self.tau = tau.unsqueeze(-1)

    def apply(self, x, adjoint=False):
        """Q x, or Q^H x."""
        from smolder.linalg import solve_triangular

        if adjoint:  # T^H = tau^* (I + S)^-H
            conjugate = self.scaled.mH if self.v.dtype.is_complex else self.scaled.mT
            tau = self.tau.conj() if self.v.dtype.is_complex else self.tau
            # (I + S)^-1 diag(tau) as its adjoint: the factors come in the other order.
            inner = tau * solve_triangular(conjugate, self.vh @ x, upper=False, unitriangular=True)
        else:
            inner = solve_triangular(self.scaled, self.tau * (self.vh @ x), upper=True, unitriangular=True)
        return x - self.v @ inner


@takes_out
@listed("linalg_householder_product")
def householder_product(A: Tensor, tau: Tensor) -> Tensor:
    """The first n columns of the product of the reflectors whose vectors are the columns of A [..., m, n], below the
    diagonal, with factors tau [..., k]."""
    name = "linalg.householder_product"
    _check_rank(name, "input", A)
    if A.size(-2) < A.size(-1):
        raise RuntimeError(f"torch.{name}: input.shape[-2] must be greater than or equal to input.shape[-1]")
    if tau.dim() and A.size(-1) < tau.size(-1):
        raise RuntimeError(f"torch.{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]")
    _check_batch(name, "tau", tau.shape, (1,), tau.dim() + 1, A)
    if A.dtype != tau.dtype:
        raise RuntimeError(
            f"torch.{name}: tau dtype {kind_name(tau.dtype)} does not match input dtype {kind_name(A.dtype)}"
        )
    _check_matrix("orgqr", A)
    first = eye(A.size(-2), A.size(-1), dtype=A.dtype, device=A.device).expand(A.shape)
    return _Product(A, tau).apply(first)


@takes_out
@listed("ormqr")
def ormqr(input: Tensor, input2: Tensor, input3: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Q times input3, or input3 times Q without left, where Q is the square product of the reflectors in input, with
    factors input2, that geqrf gives; its conjugate transpose with `transpose`."""
    tau, other = input2, input3
    _check_rank("ormqr", "input", input)
    _check_rank("ormqr", "other", other)
    side = -2 if left else -1
    if other.size(side) != input.size(-2):
        raise RuntimeError(f"torch.ormqr: other.shape[{side}] must be equal to input.shape[-2]")
    if tau.dim() == 0 or tau.size(-1) != min(other.size(side), input.size(-1)):
        raise RuntimeError(f"torch.ormqr: tau.shape[-1] must be equal to min(other.shape[{side}], input.shape[-1])")
    _check_batch("ormqr", "tau", tau.shape, (1,), tau.dim() + 1, input)
    _check_batch("ormqr", "other", other.shape, (1, 1), other.dim(), input)
    for argument, x in (("tau", tau), ("other", other)):
        if x.dtype != input.dtype:
            raise RuntimeError(
                f"torch.ormqr: Expected input and {argument} to have the same dtype, but input has dtype"
                f"{kind_name(input.dtype)} and {argument} has dtype {kind_name(x.dtype)}"
            )
    _check_matrix("ormqr", input)
    product = _Product(input, tau)
    if left:
        return product.apply(other, transpose)
    return _h(product.apply(_h(other), not transpose))  # (Q^H X^H)^H


def _h(a):
    return a.mH if a.dtype.is_complex else a.mT
