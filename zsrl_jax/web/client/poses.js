// Poses by sliders: one per joint; a free root has its height, roll and pitch.

import { slider } from "./controls.js";

const FREE = 0, SLIDE = 2;

// Return the quaternion of roll about x and then pitch about y.
function tilted(roll, pitch) {
  const [a, b] = [Math.cos(roll / 2), Math.sin(roll / 2)];
  const [c, d] = [Math.cos(pitch / 2), Math.sin(pitch / 2)];
  return [a * c, b * c, a * d, -b * d];
}

// Return roll and pitch of a quaternion.
function tiltOf([w, x, y, z]) {
  const roll = Math.atan2(2 * (w * x + y * z), 1 - 2 * (x * x + y * y));
  return [roll, Math.asin(Math.max(-1, Math.min(1, 2 * (w * y - z * x))))];
}

export class Poser {
  constructor(parent, robot, onChange) {
    this.count = robot.model.nq;
    this.qpos = Array.from(robot.model.qpos0);
    this.width = robot.model.nq + robot.model.nv + robot.model.na;
    this.rows = [];
    for (const joint of robot.facts.joints) {
      const change = () => { this.read(); onChange(this.physics()); };
      const { at } = joint;
      if (joint.type === FREE) {
        this.add(parent, "height", joint.low, joint.high, at + 2, change);
        this.roll = this.add(parent, "roll", -Math.PI, Math.PI, null, change);
        this.pitch = this.add(parent, "pitch", -1.57, 1.57, null, change);
        this.quat = at + 3;
      } else if (!(joint.root && joint.type === SLIDE && /x$/.test(joint.name))) {
        this.add(parent, joint.name, joint.low, joint.high, at, change);
      }
    }
  }

  add(parent, name, low, high, at, change) {
    const step = (high - low) / 200 || 0.01;
    const row = slider(name, { low, high, step, value: at === null ? 0 : this.qpos[at] }, change);
    row.at = at;
    this.rows.push(row);
    parent.append(row);
    return row;
  }

  read() {
    for (const row of this.rows) if (row.at !== null) this.qpos[row.at] = row.get();
    if (this.quat !== undefined) {
      tilted(this.roll.get(), this.pitch.get()).forEach((x, i) => { this.qpos[this.quat + i] = x; });
    }
  }

  // Take the positions of a state.
  show(physics) {
    this.qpos = Array.from(physics.slice(0, this.count));
    for (const row of this.rows) if (row.at !== null) row.set(this.qpos[row.at]);
    if (this.quat !== undefined) {
      const [roll, pitch] = tiltOf(this.qpos.slice(this.quat, this.quat + 4));
      this.roll.set(roll);
      this.pitch.set(pitch);
    }
  }

  // Return the pose at rest as a state.
  physics() {
    const state = new Array(this.width).fill(0);
    this.qpos.forEach((x, i) => { state[i] = x; });
    return state;
  }
}
