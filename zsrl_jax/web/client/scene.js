// The picture: MuJoCo's geoms in three.js, with a camera that follows, shadows and a ghost.

import * as T from "three";
import { OrbitControls } from "three/addons/controls/OrbitControls.js";

const PLANE = 0, SPHERE = 2, CAPSULE = 3, ELLIPSOID = 4, CYLINDER = 5, BOX = 6, MESH = 7;
const THEMES = {
  light: { sky: 0xe9eef2, floor: ["#d9e1e7", "#cfd9e0", "#c3ced7"], body: 0xe27b45, limb: 0xeb9c66,
    ghost: 0x2f7fd6, hemisphere: [0xffffff, 0xb9c6d0, 1.5], sun: 2.3 },
  dark: { sky: 0x12171d, floor: ["#1b222a", "#1f2831", "#2a3540"], body: 0xee8a50, limb: 0xf2a873,
    ghost: 0x6db3ff, hemisphere: [0xa9c2dd, 0x20262d, 1.0], sun: 1.9 },
};
const SLOW_FRAME = 90; // milliseconds
const LONGEST = 150; // that one frame counts for: a tab that was hidden is not slow
const COMMON = [0.7, 0.5, 0.3]; // dm_control's colour of every body

const code = (value) => (typeof value === "object" ? value.value : value);

function geometry(model, geom) {
  const size = Array.from(model.geom_size.subarray(3 * geom, 3 * geom + 3));
  const [a, b, c] = size, half = Math.PI / 2;
  switch (code(model.geom_type[geom])) {
    case SPHERE: return new T.SphereGeometry(a, 24, 16);
    case CAPSULE: return new T.CapsuleGeometry(a, 2 * b, 8, 20).rotateX(half);
    case ELLIPSOID: return new T.SphereGeometry(1, 28, 18).scale(a, b, c);
    case CYLINDER: return new T.CylinderGeometry(a, a, 2 * b, 32).rotateX(half);
    case BOX: return new T.BoxGeometry(2 * a, 2 * b, 2 * c);
    case MESH: return meshOf(model, model.geom_dataid[geom]);
    default: return null;
  }
}

function meshOf(model, mesh) {
  const first = model.mesh_vertadr[mesh], count = model.mesh_vertnum[mesh];
  const face = model.mesh_faceadr[mesh], faces = model.mesh_facenum[mesh];
  const made = new T.BufferGeometry();
  const points = model.mesh_vert.slice(3 * first, 3 * (first + count));
  made.setAttribute("position", new T.BufferAttribute(Float32Array.from(points), 3));
  made.setIndex(Array.from(model.mesh_face.slice(3 * face, 3 * (face + faces))));
  made.computeVertexNormals();
  return made;
}

function floorTexture([base, other, line]) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = 256;
  const draw = canvas.getContext("2d");
  draw.fillStyle = base;
  draw.fillRect(0, 0, 256, 256);
  draw.fillStyle = other;
  draw.fillRect(0, 0, 128, 128);
  draw.fillRect(128, 128, 128, 128);
  draw.strokeStyle = line;
  draw.lineWidth = 2;
  draw.strokeRect(0, 0, 256, 256);
  const texture = new T.CanvasTexture(canvas);
  texture.wrapS = texture.wrapT = T.RepeatWrapping;
  texture.repeat.set(60, 60);
  texture.colorSpace = T.SRGBColorSpace;
  texture.anisotropy = 8;
  return texture;
}

export class Scene {
  constructor(canvas, robot) {
    this.robot = robot;
    this.canvas = canvas;
    this.quality = 1;
    this.renderer = new T.WebGLRenderer({ canvas, antialias: true });
    this.renderer.shadowMap.enabled = true;
    this.renderer.shadowMap.type = T.PCFShadowMap;
    this.scene = new T.Scene();
    this.camera = new T.PerspectiveCamera(36, 1, 0.05, 120);
    this.camera.up.set(0, 0, 1);
    this.light = new T.HemisphereLight();
    this.sun = new T.DirectionalLight(0xfff4e6);
    this.sun.castShadow = true;
    this.sun.shadow.mapSize.set(1024, 1024);
    this.sun.shadow.bias = -0.0004;
    this.sun.shadow.normalBias = 0.01;
    this.floor = new T.Mesh(new T.PlaneGeometry(120, 120), new T.MeshStandardMaterial({ roughness: 1 }));
    this.floor.receiveShadow = true;
    this.scene.add(this.light, this.sun, this.sun.target, this.floor);
    this.addBodies();
    this.frameRobot();
    this.paint();
  }

  addBodies() {
    const { model } = this.robot;
    this.parts = [];
    this.ghosts = [];
    this.glass = new T.MeshStandardMaterial({ transparent: true, opacity: 0.34, depthWrite: false });
    for (let geom = 0; geom < model.ngeom; geom++) {
      if (code(model.geom_type[geom]) === PLANE || model.geom_group[geom] > 2) continue;
      const shape = geometry(model, geom);
      if (!shape) continue;
      const body = model.geom_bodyid[geom];
      const mesh = new T.Mesh(shape, new T.MeshStandardMaterial({ roughness: 0.55, metalness: 0.05 }));
      const ghost = new T.Mesh(shape, this.glass);
      mesh.castShadow = mesh.receiveShadow = body !== 0;
      mesh.userData = { geom, body, colour: this.colourOf(geom) };
      for (const each of [mesh, ghost]) {
        each.matrixAutoUpdate = false;
        this.scene.add(each);
      }
      ghost.visible = false;
      this.parts.push(mesh);
      this.ghosts.push(ghost);
    }
  }

  // Return a geom's own colour; null for the common one, which the theme decides.
  colourOf(geom) {
    const { model } = this.robot, material = model.geom_matid[geom];
    const rgba = material >= 0 ? model.mat_rgba.subarray(4 * material, 4 * material + 4)
      : model.geom_rgba.subarray(4 * geom, 4 * geom + 4);
    const rgb = Array.from(rgba.subarray(0, 3));
    const isCommon = rgb.every((x, i) => Math.abs(x - COMMON[i]) < 0.02);
    return isCommon ? null : new T.Color().setRGB(...rgb, T.SRGBColorSpace);
  }

  // Look at the robot from a distance that shows all of it.
  frameRobot() {
    const { robot } = this, points = robot.data.geom_xpos, centre = this.centre();
    let reach = 0.4;
    for (const mesh of this.parts) {
      if (!mesh.userData.body) continue;
      const at = 3 * mesh.userData.geom;
      const apart = Math.hypot(...[0, 1, 2].map((i) => points[at + i] - centre[i]));
      reach = Math.max(reach, apart + robot.model.geom_rbound[mesh.userData.geom]);
    }
    this.reach = reach;
    this.orbit = new OrbitControls(this.camera, this.canvas);
    this.orbit.enablePan = false;
    this.orbit.enableDamping = true;
    this.orbit.minDistance = 1.5 * reach;
    this.orbit.maxDistance = 14 * reach;
    this.orbit.maxPolarAngle = 0.495 * Math.PI;
    this.orbit.target.set(centre[0], centre[1], 0.55 * reach);
    if (robot.facts.arena) this.orbit.target.set(0, 0, 0); // seen from above, as a whole
    const side = robot.facts.arena ? [0, -1.1, 2.2] : this.robot.facts.planar ? [0.9, -5.2, 1.5] : [-3.4, -4.0, 2.3];
    const beside = robot.facts.arena ? [0, 0, 0] : centre;
    this.camera.position.set(...side.map((x, i) => beside[i] * (i < 2) + x * reach));
    const span = 3.5 * reach, view = this.sun.shadow.camera;
    Object.assign(view, { left: -span, right: span, top: span, bottom: -span, near: 0.1, far: 14 * reach });
    view.updateProjectionMatrix();
  }

  centre() {
    return Array.from(this.robot.data.subtree_com.subarray(3, 6));
  }

  // Take the colours of the light or the dark theme.
  paint(isDark = matchMedia("(prefers-color-scheme: dark)").matches) {
    const theme = THEMES[isDark ? "dark" : "light"], { reach } = this;
    this.scene.background = new T.Color(theme.sky);
    this.scene.fog = new T.Fog(theme.sky, 9 * reach, 26 * reach);
    const [above, below, strength] = theme.hemisphere;
    this.light.color.set(above);
    this.light.groundColor.set(below);
    this.light.intensity = strength;
    this.sun.intensity = theme.sun;
    this.floor.material.map?.dispose();
    this.floor.material.map = floorTexture(theme.floor);
    this.floor.material.needsUpdate = true;
    this.glass.color.set(theme.ghost);
    for (const mesh of this.parts) {
      const { body, colour } = mesh.userData;
      mesh.material.color.set(colour ?? (body <= 1 ? theme.body : theme.limb));
    }
  }

  // Show a state as a ghost beside the robot; null hides it.
  showGhost(physics) {
    this.ghosts.forEach((ghost, i) => { // walls have none
      ghost.visible = physics !== null && this.parts[i].userData.body !== 0;
    });
    if (physics === null) return;
    const { robot } = this;
    robot.place(physics, robot.shadow);
    this.move(this.ghosts, robot.shadow, this.ghostShift(robot.shadow));
  }

  // Return the shift that brings a ghost beside the robot, whatever its own place is.
  ghostShift(data) {
    if (this.robot.facts.arena) return [0, 0, 0];
    const here = this.centre(), there = data.subtree_com;
    const aside = this.robot.facts.planar ? [0, 1.1 * this.reach] : [1.6 * this.reach, 0];
    return [here[0] - there[3] + aside[0], here[1] - there[4] + aside[1], 0];
  }

  move(meshes, data, [dx, dy, dz] = [0, 0, 0]) {
    const x = data.geom_xpos, r = data.geom_xmat;
    meshes.forEach((mesh, i) => {
      const { geom } = this.parts[i].userData, p = 3 * geom, q = 9 * geom;
      mesh.matrix.set(
        r[q], r[q + 1], r[q + 2], x[p] + dx, r[q + 3], r[q + 4], r[q + 5], x[p + 1] + dy,
        r[q + 6], r[q + 7], r[q + 8], x[p + 2] + dz, 0, 0, 0, 1);
      mesh.matrixWorldNeedsUpdate = true;
    });
  }

  // Return the body and the point that a place on the canvas shows, or null.
  pick(clientX, clientY) {
    const box = this.canvas.getBoundingClientRect();
    const place = new T.Vector2(
      2 * (clientX - box.left) / box.width - 1, 1 - 2 * (clientY - box.top) / box.height);
    const ray = new T.Raycaster();
    ray.setFromCamera(place, this.camera);
    const [hit] = ray.intersectObjects(this.parts.filter((mesh) => mesh.userData.body));
    return hit ? { body: hit.object.userData.body, point: hit.point, ray: ray.ray.direction } : null;
  }

  // Show where and how the robot was pushed, for a moment.
  showPush(point, direction) {
    const arrow = new T.ArrowHelper(direction, point.clone().addScaledVector(direction, -0.9 * this.reach),
      0.8 * this.reach, this.glass.color, 0.25 * this.reach, 0.16 * this.reach);
    this.scene.add(arrow);
    setTimeout(() => { this.scene.remove(arrow); arrow.dispose(); }, 350);
  }

  // Draw coarser where the machine is slow: fewer pixels first, then no shadows.
  adapt(now) {
    const passed = now - (this.drawn ?? now);
    this.drawn = now;
    this.mean = 0.8 * (this.mean ?? 16) + 0.2 * Math.min(passed, LONGEST);
    if (this.mean < SLOW_FRAME || this.quality <= 0.3) return;
    this.quality *= 0.6;
    this.mean = 16;
    this.renderer.shadowMap.enabled = this.sun.castShadow = this.quality > 0.3;
  }

  draw(now) {
    this.adapt(now);
    this.move(this.parts, this.robot.data);
    const centre = this.centre(), { orbit, camera } = this;
    const still = this.robot.facts.arena; // the camera stays where it is
    const dx = still ? 0 : centre[0] - orbit.target.x;
    const dy = this.robot.facts.planar ? 0 : centre[1] - orbit.target.y;
    const dz = still ? 0 : 0.06 * (Math.max(centre[2], 0.4 * this.reach) - orbit.target.z);
    for (const vector of [orbit.target, camera.position]) {
      vector.x += dx;
      vector.y += dy;
    }
    orbit.target.z += dz;
    orbit.update();
    const { x, y } = orbit.target, { reach } = this;
    this.sun.position.set(x - 2.2 * reach, y - 3 * reach, 6 * reach);
    this.sun.target.position.set(x, y, 0);
    this.floor.position.set(2 * Math.round(x / 2), 2 * Math.round(y / 2), 0);
    this.fit();
    this.renderer.render(this.scene, camera);
  }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const ratio = Math.min(devicePixelRatio, 2) * this.quality;
    if (this.width === width && this.height === height && this.ratio === ratio) return;
    Object.assign(this, { width, height, ratio });
    this.renderer.setPixelRatio(ratio);
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / Math.max(height, 1);
    this.camera.fov = this.camera.aspect < 1 ? 46 : 36;
    this.camera.updateProjectionMatrix();
  }
}
