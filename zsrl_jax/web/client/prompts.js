// From a prompt to a task vector, as zsrl_jax/prompts.py and agent.py have it: closed form, float64.

import { makeFeatures, makeNormalizer, makePolicy } from "./networks.js";

const FAR = 5; // deviations outside of the data's states
const SMALL = 1e-3; // least deviation of an entry of the states

export class Agent {
  constructor(facts, arrays) {
    this.facts = facts;
    this.arrays = arrays;
    const normalize = makeNormalizer(arrays, facts.clip);
    this.place = makeFeatures(arrays, normalize, facts.radius);
    this.act = makePolicy(arrays, normalize, facts.pessimism);
    this.phi = arrays.get("phi");
    this.dim = facts.dim;
    this.count = this.phi.length / this.dim;
    this.tasks = arrays.get("tasks");
  }

  // Return phi of a state, or of the transition to it where the encoder asks for both.
  features(before, obs) {
    const after = this.place(obs);
    if (!this.facts.of_transitions) return after;
    return this.place(before).map((value, j) => after[j] - value);
  }

  // Answer a reward, given as its value in every state of the data.
  ofReward(values) {
    this.refuseConstant(values);
    const fit = this.regress("all", values, () => true, this.facts.ridge);
    const r2 = this.heldOut(values, fit.strength);
    const z = this.facts.own ? this.moment(values) : fit.z;
    return { ...this.answer(z, false), r2, ridge: fit.strength };
  }

  // Answer a state to reach.
  ofGoal(obs) {
    const aim = this.place(obs), before = this.arrays.get("phi/before");
    const z = before ? aim.map((value, j) => value - before[j])
      : this.facts.own ? aim : this.goalVector(aim);
    return { ...this.answer(z, false), r2: NaN, far: this.outside([obs]) };
  }

  // Answer a behaviour to repeat.
  ofDemonstration(states) {
    const z = new Float64Array(this.dim), centre = this.arrays.get("centre");
    const first = this.facts.of_transitions ? 1 : 0;
    let total = 0;
    states.slice(first).forEach((obs, t) => {
      const weight = this.facts.discount ** t;
      total += weight;
      this.features(states[t], obs).forEach((value, j) => { z[j] += weight * value; });
    });
    const mean = z.map((value, j) => value / total - (centre ? centre[j] : 0));
    return { ...this.ofShown(Float32Array.from(mean)), far: this.outside(states) };
  }

  // Answer the mean features of a behaviour, above those of the data.
  ofShown(own) {
    return { ...this.answer(own, true), own, r2: NaN };
  }

  refuseConstant(values) {
    let low = Infinity, high = -Infinity, most = 0;
    for (const value of values) {
      low = Math.min(low, value);
      high = Math.max(high, value);
      most = Math.max(most, Math.abs(value));
    }
    if (high - low > 1e-9 * most || (!this.facts.intercept && low !== 0)) return;
    throw new Error(`the reward is ${+values[0].toPrecision(4)} on every state, so it prefers none: ` +
      "expected one that varies over the data's states");
  }

  // Ridge regression in the eigenbasis that Python computed; strength by cross-validation.
  regress(name, values, isKept, ridge) {
    const d = this.dim, value = this.arrays.get(`${name}/value`);
    const vector = this.arrays.get(`${name}/vector`), mean = this.arrays.get(`${name}/mean`);
    let number = 0, level = 0, energy = 0;
    for (let s = 0; s < this.count; s++) if (isKept(s)) { number += 1; level += values[s]; }
    level = this.facts.intercept ? level / number : 0;
    const product = new Float64Array(d);
    for (let s = 0; s < this.count; s++) {
      if (!isKept(s)) continue;
      const r = values[s] - level;
      energy += r * r / number;
      for (let j = 0; j < d; j++) product[j] += (this.phi[s * d + j] - mean[j]) * r;
    }
    const moment = new Float64Array(d);
    for (let j = 0; j < d; j++) {
      for (let k = 0; k < d; k++) moment[k] += vector[j * d + k] * product[j] / number;
    }
    const least = value[d - 1] * 1e-13, unit = value.reduce((a, b) => a + b, 0) / d;
    const isUsed = (k) => value[d - 1] > 0 && value[k] > least;
    const weights = (s) => moment.map((m, k) => (isUsed(k) ? m / (value[k] + s * unit) : 0));
    const score = (s) => { // generalised cross-validation
      const weight = weights(s);
      let residual = energy, freedom = 0;
      for (let k = 0; k < d; k++) {
        residual += weight[k] * (value[k] * weight[k] - 2 * moment[k]);
        if (isUsed(k)) freedom += value[k] / (value[k] + s * unit + 1e-300);
      }
      return Math.max(residual, 0) / Math.max(1 - freedom / number, 1e-6) ** 2;
    };
    let strength = ridge;
    if (ridge === "auto") {
      const scores = this.facts.grid.map(score);
      strength = this.facts.grid[scores.indexOf(Math.min(...scores))];
    }
    const weight = weights(strength), z = new Float64Array(d);
    for (let j = 0; j < d; j++) for (let k = 0; k < d; k++) z[j] += vector[j * d + k] * weight[k];
    let constant = level;
    for (let j = 0; j < d; j++) constant -= mean[j] * z[j];
    return { z, strength, constant: this.facts.intercept ? constant : 0 };
  }

  // Return R^2 on every fifth state, of a regression on the others.
  heldOut(values, strength) {
    if (this.count < 10) return NaN;
    const fit = this.regress("fit", values, (s) => s % 5 !== 0, strength);
    let mean = 0, number = 0, miss = 0, variation = 0;
    for (let s = 0; s < this.count; s += 5) { mean += values[s]; number += 1; }
    mean /= number;
    for (let s = 0; s < this.count; s += 5) {
      let told = fit.constant;
      for (let j = 0; j < this.dim; j++) told += this.phi[s * this.dim + j] * fit.z[j];
      miss += (values[s] - told) ** 2;
      variation += (values[s] - mean) ** 2;
    }
    return variation > 0 ? 1 - miss / variation : NaN;
  }

  moment(values) {
    const z = new Float64Array(this.dim);
    for (let s = 0; s < this.count; s++) {
      for (let j = 0; j < this.dim; j++) z[j] += this.phi[s * this.dim + j] * values[s] / this.count;
    }
    return z;
  }

  goalVector(aim) {
    const d = this.dim, value = this.arrays.get("all/value"), vector = this.arrays.get("all/vector");
    const mean = this.arrays.get("all/mean"), weight = new Float64Array(d), z = new Float64Array(d);
    const ridge = this.facts.goal_ridge * value.reduce((a, b) => a + b, 0) / d;
    for (let j = 0; j < d; j++) {
      for (let k = 0; k < d; k++) weight[k] += vector[j * d + k] * (aim[j] - mean[j]);
    }
    for (let k = 0; k < d; k++) {
      if (this.facts.intercept) weight[k] /= value[k] + ridge;
      else weight[k] = value[k] > 1e-8 * value[d - 1] ? weight[k] / value[k] : 0;
    }
    for (let j = 0; j < d; j++) for (let k = 0; k < d; k++) z[j] += vector[j * d + k] * weight[k];
    return z;
  }

  // Return what the policy is asked for: z, or behaviours of the data that fit it.
  // A demonstration's z (`shown`) is answered as its piece was made a training task.
  answer(own, shown) {
    let z = this.onSphere(own), cosine = NaN;
    if (this.tasks) {
      const number = this.tasks.length / this.dim, size = this.arrays.get("task_size");
      const products = new Float64Array(number);
      for (let t = 0; t < number; t++) {
        let sum = 0;
        for (let j = 0; j < this.dim; j++) sum += this.tasks[t * this.dim + j] * z[j];
        products[t] = sum;
      }
      cosine = products.reduce((a, b) => Math.max(a, b), -Infinity) / this.facts.radius ** 2;
      const nearest = shown ? 0 : this.facts.nearest;
      const behaviours = shown ? this.facts.task_behaviours : this.facts.behaviours;
      if (behaviours) {
        z = this.meanOfBest(products.map((p, t) => Math.fround(p) * size[t]), behaviours);
      } else if (nearest) {
        z = this.meanOfBest(products, nearest);
      }
    }
    return { z, cosine };
  }

  meanOfBest(earned, number) {
    const order = Array.from(earned.keys()).sort((a, b) => earned[b] - earned[a] || a - b);
    const mean = new Float64Array(this.dim);
    for (const t of order.slice(0, number)) {
      for (let j = 0; j < this.dim; j++) mean[j] += this.tasks[t * this.dim + j];
    }
    return this.onSphere(mean);
  }

  onSphere(z) {
    let square = 0;
    for (const value of z) square += value * value;
    if (!(square > 0)) throw new Error("the prompt gives a zero task vector: it asks for nothing");
    const size = this.facts.radius / Math.sqrt(square);
    return Float32Array.from(z, (value) => value * size);
  }

  // Return how many deviations states lie outside of the data, if they do so by far; else 0.
  outside(states) {
    const [low, high, deviation] = ["low", "high", "deviation"].map((n) => this.arrays.get(`obs/${n}`));
    let most = 0;
    for (const obs of states) {
      for (let i = 0; i < obs.length; i++) {
        const beyond = Math.max(low[i] - obs[i], obs[i] - high[i]);
        most = Math.max(most, beyond / Math.max(deviation[i], SMALL));
      }
    }
    return most > FAR ? most : 0;
  }
}
