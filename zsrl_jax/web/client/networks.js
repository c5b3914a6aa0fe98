// The networks of an agent, as zsrl_jax/networks.py has them: phi(s), the actor (s, z), and the
// critic (s, a, z) where it chooses the action (zsrl_jax/acting.py).

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

// The layers of the actor or the critic by name, and the streams that both have.
class Layers {
  constructor(arrays, part) {
    this.get = (name) => arrays.get(`${part}/${name}`);
  }

  apply(x, name) {
    return dense(x, this.get(`${name}/kernel`), this.get(`${name}/bias`));
  }

  norm(x, name) {
    return layerNorm(x, this.get(`${name}/scale`), this.get(`${name}/bias`));
  }

  stream(x, name) {
    const first = this.norm(this.apply(x, `${name}/Dense_0`), `${name}/LayerNorm_0`);
    return relu(this.apply(first.map(Math.tanh), `${name}/Dense_1`));
  }
}

// Return the policy as a function of a raw observation and z: actions in [-1, 1]. Where critics
// choose, it is the action of most value among the actors' and the corners; several critics
// decide by their sum.
export function makePolicy(arrays, normalize, pessimism) {
  const actors = [], critics = [];
  while (arrays.has(`actor${actors.length}/Dense_0/bias`)) actors.push(makeActor(arrays, actors.length));
  if (!arrays.has("candidates")) return (obs, z) => actors[0](normalize(obs), z);
  for (let i = 0; i < actors.length; i++) critics.push(makeCritic(arrays, i, pessimism));
  const corners = arrays.get("candidates");
  return (obs, z) => {
    const x = normalize(obs), worths = critics.map((critic) => critic(x, z));
    const tried = actors.map((actor) => actor(x, z)), size = tried[0].length;
    for (let first = 0; first < corners.length; first += size) {
      tried.push(Float64Array.from(corners.subarray(first, first + size)));
    }
    let best = null, most = -Infinity;
    for (const action of tried) {
      const value = worths.reduce((sum, worth) => sum + worth(action), 0);
      if (value > most) [best, most] = [action, value];
    }
    return best ?? tried[0];
  };
}

// Return (x, z) -> action of one learner's actor.
function makeActor(arrays, i) {
  const layers = new Layers(arrays, `actor${i}`);
  return (x, z) => {
    const both = joined(layers.stream(x, "_Stream_0"), layers.stream(joined(x, z), "_Stream_1"));
    // flax names the layers in the order in which they are made: the output first
    return layers.apply(relu(layers.apply(both, "Dense_1")), "Dense_0").map(Math.tanh);
  };
}

// Return (x, z) -> action -> Q of one learner. What hangs on x and z alone is computed once.
function makeCritic(arrays, number, pessimism) {
  const layers = new Layers(arrays, `critic${number}`);
  return (x, z) => {
    const told = layers.stream(joined(x, z), "_Stream_1"), half = told.length;
    const kernel = layers.get("Dense_0/kernel"), bias = layers.get("Dense_0/bias");
    const upper = kernel.subarray(0, half * bias.length);
    const base = dense(told, kernel.subarray(half * bias.length), bias);
    const heads = [0, 1].map((i) => valueWeights(layers, i, z));
    return (action) => {
      const both = dense(layers.stream(joined(x, action), "_Stream_0"), upper, base);
      const q = heads.map(({ weight, level }, i) => {
        let hidden = both.subarray(i * weight.length, (i + 1) * weight.length);
        if (layers.get(`LayerNorm_${i}/scale`)) hidden = layers.norm(hidden, `LayerNorm_${i}`);
        return hidden.reduce((sum, h, j) => sum + (h > 0 ? h * weight[j] : 0), level);
      });
      return ((1 + pessimism) * Math.min(...q) + (1 - pessimism) * Math.max(...q)) / 2;
    };
  };
}

// Return the weights of psi.z over the hidden layer of a head, or of its one output (a scalar head).
function valueWeights(layers, i, z) {
  const kernel = layers.get(`Dense_${i + 1}/kernel`), bias = layers.get(`Dense_${i + 1}/bias`);
  const scale = bias.length === 1 ? [1] : z, width = kernel.length / bias.length;
  const dot = (row, from) => bias.reduce((sum, _, k) => sum + row[from + k] * scale[k], 0);
  const weight = Float64Array.from({ length: width }, (_, j) => dot(kernel, j * bias.length));
  return { weight, level: dot(bias, 0) };
}
