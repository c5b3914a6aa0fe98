"""Which precisions a device multiplies in: an older GPU refuses tf32 and bfloat16.

A refusal is a fault only where the maker's table says that the device has such units.
"""

import jax
import jax.numpy as jnp

from zsrl_jax.devices import peaks, precision


def refusal(products: str) -> str:
    """Return why the device does not multiply so, in one line; nothing, if it does."""
    rows = jnp.ones((16, 16))
    multiply = jax.jit(precision.bind(lambda x: precision.product((x,), x), products))
    try:
        jax.block_until_ready(multiply(rows))
    except Exception as error:  # whatever a device's compiler may raise
        return (str(error).splitlines() or [type(error).__name__])[0][:200]
    return ""


def there() -> tuple[list[str], str, bool]:
    """Return the precisions that the device has, a line about them, and whether all is right."""
    refused = {products: refusal(products) for products in precision.NAMES}
    found = [products for products, why in refused.items() if not why]
    parts = [f"{products} is refused ({why})" for products, why in refused.items() if why]
    is_known = peaks.peak_of(jax.devices()[0].device_kind) is not None
    good = not parts or (not is_known and precision.EXACT in found)
    return found, f"units: {', '.join([*found, *parts])}", good
