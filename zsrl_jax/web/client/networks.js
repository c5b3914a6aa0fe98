// The networks of an agent, as zsrl_jax/networks.py has them: phi(s) and the actor (s, z).

// Return x W + b.
function dense(x, kernel, bias) {
  const width = bias.length, out = Float64Array.from(bias);
  for (let i = 0; i < x.length; i++) {
    const value = x[i], row = i * width;
    if (value !== 0) for (let j = 0; j < width; j++) out[j] += value * kernel[row + j];
  }
  return out;
}

const relu = (x) => x.map((value) => (value > 0 ? value : 0));

function joined(a, b) {
  const out = new Float64Array(a.length + b.length);
  out.set(a);
  out.set(b, a.length);
  return out;
}

function layerNorm(x, scale, bias) {
  let mean = 0, variance = 0;
  for (const value of x) mean += value / x.length;
  for (const value of x) variance += (value - mean) ** 2 / x.length;
  const size = 1 / Math.sqrt(variance + 1e-6);
  return x.map((value, i) => (value - mean) * size * scale[i] + bias[i]);
}

// Return x -> clip((x - mean) / scale, -limit, limit).
export function makeNormalizer(arrays, limit) {
  const mean = arrays.get("obs/mean"), scale = arrays.get("obs/scale"), most = limit ?? Infinity;
  return (obs) => Float64Array.from(obs, (value, i) => {
    const x = (Math.fround(value) - mean[i]) / scale[i];
    return Math.min(most, Math.max(-most, x));
  });
}

// Return phi as a function of a raw observation; of transitions, what the difference is taken of.
export function makeFeatures(arrays, normalize, radius) {
  const layers = [];
  while (arrays.has(`phi/${layers.length}/bias`)) {
    const at = `phi/${layers.length}`;
    layers.push([arrays.get(`${at}/kernel`), arrays.get(`${at}/bias`)]);
  }
  const inverse = arrays.get("phi/inverse"), constant = arrays.get("phi/constant");
  const scale = arrays.get("phi/norm/scale"), shift = arrays.get("phi/norm/bias");
  return (obs) => {
    let x = normalize(obs);
    layers.forEach(([kernel, bias], i) => {
      x = dense(x, kernel, bias);
      if (i === 0 && scale) x = layerNorm(x, scale, shift).map(Math.tanh);
      else if (i < layers.length - 1) x = relu(x);
    });
    if (constant) return x.map((value) => value * constant[0]);
    let square = 0;
    for (const value of x) square += value * value;
    const size = radius / Math.sqrt(Math.max(square, 1e-12));
    x = x.map((value) => value * size);
    return inverse ? dense(x, inverse, new Float64Array(x.length)) : x;
  };
}

// Return the policy as a function of a raw observation and z: actions in [-1, 1].
export function makeActor(arrays, normalize) {
  const get = (name) => arrays.get(`actor/${name}`);
  const apply = (x, name) => dense(x, get(`${name}/kernel`), get(`${name}/bias`));
  const stream = (x, name) => {
    const first = apply(x, `${name}/Dense_0`);
    const norm = `${name}/LayerNorm_0`;
    const middle = layerNorm(first, get(`${norm}/scale`), get(`${norm}/bias`)).map(Math.tanh);
    return relu(apply(middle, `${name}/Dense_1`));
  };
  return (obs, z) => {
    const x = normalize(obs);
    const both = joined(stream(x, "_Stream_0"), stream(joined(x, z), "_Stream_1"));
    // flax names the layers in the order in which they are made: the output first
    return apply(relu(apply(both, "Dense_1")), "Dense_0").map(Math.tanh);
  };
}
