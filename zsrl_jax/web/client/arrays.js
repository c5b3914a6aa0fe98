// The block of arrays that Python packed (zsrl_jax/web/bundle.py): a table of contents and bytes.

// Return a float16 as a number.
function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  if (exponent === 31) return fraction ? NaN : sign * Infinity;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

const HALVES = Float32Array.from({ length: 65536 }, (_, bits) => half(bits));

// Return a Map of names to typed arrays, each with its `shape`.
export function unpack(table, bytes) {
  const found = new Map();
  for (const [name, [type, shape, at]] of Object.entries(table)) {
    const size = shape.reduce((a, b) => a * b, 1);
    let array;
    if (type === "float64") array = new Float64Array(bytes.buffer, bytes.byteOffset + at, size);
    else if (type === "float32") array = new Float32Array(bytes.buffer, bytes.byteOffset + at, size);
    else {
      const bits = new Uint16Array(bytes.buffer, bytes.byteOffset + at, size);
      array = Float32Array.from(bits, (b) => HALVES[b]);
    }
    array.shape = shape;
    found.set(name, array);
  }
  return found;
}
