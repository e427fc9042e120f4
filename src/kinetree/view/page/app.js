// The page: time, sliders, camera, and what is drawn over the scene.
"use strict";
const $ = id => document.getElementById(id);
const REST = .6; // seconds that a run stands still at its end before it starts again
const LIGHT = M.unit([.45, -.35, 1]);
const dark = matchMedia("(prefers-color-scheme: dark)");
const MOST_LABELS = 80;

class App {
  constructor(source) {
    Object.assign(this, { source, scene: source.scene, time: 0, world: -1, segments: [], contacts: null, asking: false, moves: new Map(), frames: 0, fps: 0, told: 0 });
    this.drawing = new Drawing(document.querySelector("canvas"), source.scene, source.geometry);
    this.camera = new Camera(this.drawing.canvas, this.scene.camera);
    this.playing = this.scene.time.length > 1 && !this.scene.live;
    this.current = { a: source.frames[0], b: source.frames[0], blend: 0 };
    this.middle = this.centre();
    this.build();
    this.mouse();
    this.source.listen(sent => this.receive(sent), () => this.note("The viewer has stopped."));
    if (!this.scene.live) this.load();
    this.last = this.counted = performance.now();
    requestAnimationFrame(now => this.tick(now));
  }
  async load() {
    try { while (await this.source.more()) { /* all of it, piece by piece, while the first is shown */ } }
    catch (error) { this.note(String(error.message || error)); }
  }
  note(text) { $("note").textContent = text; }

  // -- The panel --------------------------------------------------------------------------------------------------------
  build() {
    const { scene } = this;
    $("name").textContent = scene.name; document.title = scene.name + " · kinetree"; $("facts").textContent = scene.facts;
    this.note(scene.note);
    document.querySelector("h1").onclick = () => $("panel").classList.toggle("closed");
    $("timing").hidden = scene.time.length < 2 && !scene.live;
    for (const id of ["play", "time", "speed"]) if (scene.live && id !== "play") $(id).hidden = true;
    const range = $("time");
    [range.min, range.max] = [scene.time[0], scene.time[scene.time.length - 1]];
    range.oninput = () => { this.time = Number(range.value); this.play(false); };
    $("play").onclick = () => this.play(!this.playing);
    if (scene.live) { this.playing = true; }
    this.play(this.playing, true);
    $("worlds").hidden = scene.worlds < 2;
    $("world").append(new Option(`all ${scene.worlds}`, -1));
    for (let k = 0; k < scene.worlds; k++) $("world").append(new Option(String(k), k));
    $("world").onchange = () => { this.world = Number($("world").value); this.contacts = null; this.reframe(); };
    $("follow").checked = scene.camera.follow;
    for (const label of document.querySelectorAll(".touch")) label.hidden = !(scene.touches && this.source.served);
    $("shadows").parentElement.hidden = !scene.planes.length;
    $("axes").parentElement.hidden = $("names").parentElement.hidden = !scene.solid;
    $("frame").onclick = () => this.reframe();
    $("joints").hidden = !scene.joints.length;
    this.fold = document.querySelector("#joints details");
    this.fold.open = scene.joints.length <= 24;
    this.sliders = scene.joints.map((joint, k) => this.slider(joint, k));
    onkeydown = event => {
      if (event.target.matches("input, select, button")) return;
      if (event.key === " ") this.play(!this.playing);
      if (event.key.toLowerCase() === "f") this.reframe();
    };
  }
  slider(joint, k) {
    const box = document.createElement("div");
    box.className = "joint";
    box.innerHTML = `<div><span class="name"></span><output></output></div><input type="range" role="slider" step="any">`;
    box.querySelector(".name").textContent = box.querySelector(".name").title = joint.name;
    const [input, output] = [box.querySelector("input"), box.querySelector("output")];
    input.setAttribute("aria-label", joint.name);
    [input.min, input.max, input.step] = [joint.lower, joint.upper, (joint.upper - joint.lower) / 400];
    input.disabled = !this.source.served || this.scene.live;
    input.oninput = () => { this.play(false); this.send(k, Number(input.value)); };
    document.querySelector("#joints details").append(box);
    return { box, input, output, joint };
  }
  // Ask for the configuration with one joint moved. While an answer is awaited, the newest value of each joint is kept.
  async send(k, value) {
    const { joint } = this.sliders[k];
    this.moves.set(joint.column, { column: joint.column, value, world: Math.max(0, this.world), frame: this.index() });
    if (this.sending) return;
    this.sending = true;
    while (this.moves.size) {
      const [[column, move]] = this.moves;
      this.moves.delete(column);
      const answer = await this.source.post("move", move);
      if (answer && answer.error) this.note(answer.error);
    }
    this.sending = false;
  }
  // The clock and the sliders, ten times a second: each change makes the browser paint the panel again.
  // Sliders stand where the joints are; a joint outside its limits is shown as it stands, in red.
  tell() {
    const { scene } = this;
    if (!scene.live && !this.shown) {
      $("clock").textContent = `${this.time.toFixed(2)} / ${scene.time[scene.time.length - 1].toFixed(2)} s`;
      if (document.activeElement !== $("time") || this.playing) $("time").value = this.time;
    }
    if (!this.fold.open) return;
    const n = scene.joints.length, from = scene.frameFloats - scene.worlds * n + Math.max(0, this.world) * n;
    this.sliders.forEach(({ box, input, output, joint }, k) => {
      const value = M.mix(this.current.a[from + k], this.current.b[from + k], this.current.blend);
      const outside = joint.limited && (value < joint.lower - 1e-6 || value > joint.upper + 1e-6);
      box.classList.toggle("outside", outside);
      output.textContent = Number.isFinite(value) ? `${(Math.round(value * 1000) / 1000 + 0).toFixed(3)} ${joint.unit}` : "not finite";
      if (document.activeElement === input && this.sending) return;
      if (value < Number(input.min)) input.min = value;
      if (value > Number(input.max)) input.max = value;
      input.value = value;
    });
  }
  play(on, quiet) {
    this.playing = on; $("play").textContent = on ? "Pause" : "Play"; this.rest = 0;
    if (on) this.shown = null;
    if (!quiet && this.scene.live) this.source.post("pause", { paused: !on });
  }

  // -- Time -------------------------------------------------------------------------------------------------------------
  receive({ time, rate, working, frame }) {
    if (!this.scene.live) { this.playing = false; $("play").textContent = "Play"; }
    this.shown = frame;
    if (this.scene.live) {
      this.time = time;
      this.preparing = working ? this.preparing || performance.now() : 0;
      if (!working) $("clock").textContent = `${time.toFixed(2)} s · ${rate.toFixed(2)} × real time`;
    }
  }
  index() {
    const { time } = this.scene;
    let [low, high] = [0, this.source.frames.length - 1];
    while (low < high) { const k = (low + high + 1) >> 1; if (time[k] <= this.time) low = k; else high = k - 1; }
    return low;
  }
  step(seconds) {
    const { time } = this.scene, { frames } = this.source, loaded = frames.length - 1;
    if (this.playing && !this.scene.live) {
      this.time += seconds * Number($("speed").value);
      if (this.time >= time[loaded] && loaded < time.length - 1) this.time = time[loaded]; // not here yet
      else if (this.time >= time[loaded]) {
        this.time = time[loaded]; this.rest += seconds;
        if (this.rest > REST) { this.time = time[0]; this.rest = 0; this.middle = null; }
      }
    }
    if (this.shown) { this.current = { a: this.shown, b: this.shown, blend: 0 }; return; }
    const k = this.index(), next = Math.min(k + 1, loaded), span = time[next] - time[k];
    this.current = { a: frames[k], b: frames[next], blend: span > 0 ? Math.max(0, Math.min(1, (this.time - time[k]) / span)) : 0 };
  }

  // -- Places -----------------------------------------------------------------------------------------------------------
  place(world, body) {
    const { scene, current: { a, b, blend } } = this, k = 4 * scene.texels * (world * scene.bodies + body);
    return [0, 1, 2].map(i => M.mix(a[k + i], b[k + i], blend));
  }
  turned(world, body) {
    const { scene, current: { a, b, blend } } = this, k = 8 * (world * scene.bodies + body) + 4;
    return Array.from((blend < .5 ? a : b).subarray(k, k + 4));
  }
  mass(world) {
    const { scene, current: { a, b, blend } } = this, k = 4 * scene.texels * scene.worlds * scene.bodies + 3 * world;
    return [0, 1, 2].map(i => M.mix(a[k + i], b[k + i], blend));
  }
  worlds() { return this.world < 0 ? [...Array(this.scene.worlds).keys()] : [this.world]; }
  // The middle of what is shown: of its centres of mass.
  centre() {
    const { scene, current: { a, b, blend } } = this, start = 4 * scene.texels * scene.worlds * scene.bodies, [first, last] = this.world < 0 ? [0, scene.worlds] : [this.world, this.world + 1];
    let x = 0, y = 0, z = 0, count = 0;
    for (let k = start + 3 * first; k < start + 3 * last; k += 3) { // no arrays: this is done for every frame
      const px = M.mix(a[k], b[k], blend), py = M.mix(a[k + 1], b[k + 1], blend), pz = M.mix(a[k + 2], b[k + 2], blend);
      if (Number.isFinite(px + py + pz)) { x += px; y += py; z += pz; count++; }
    }
    return count ? [x / count, y / count, z / count] : scene.camera.centre;
  }
  reframe() {
    const whole = this.scene.camera, one = this.scene.single;
    this.camera.framing = this.world < 0 ? whole : one;
    const now = $("follow").checked;
    this.camera.frame(now ? this.centre() : this.world < 0 ? whole.centre : M.add(one.centre, this.place(this.world, this.scene.bodies - 1)));
    this.middle = this.centre();
  }
  follow(seconds) {
    const now = this.centre();
    if (this.middle === null) { this.camera.target = M.add(this.camera.target, M.sub(now, this.before)); this.middle = now; }
    if ($("follow").checked) {
      const move = M.scale(M.sub(now, this.middle), 1 - Math.exp(-5 * seconds));
      this.camera.target = M.add(this.camera.target, move); this.middle = M.add(this.middle, move);
    } else this.middle = now;
    this.before = this.middle;
  }

  // -- What is drawn over the scene -------------------------------------------------------------------------------------
  line(a, b, colour) { this.segments.push(...a, ...b, ...colour); }
  arrow(a, way, colour) {
    const b = M.add(a, way), size = M.norm(way), side = M.unit(M.cross(way, Math.abs(way[2]) < .9 * size ? [0, 0, 1] : [1, 0, 0]));
    this.line(a, b, colour);
    for (const s of [-1, 1]) this.line(b, M.add(M.sub(b, M.scale(way, .2)), M.scale(side, .1 * s * size)), colour);
  }
  cross(p, size, colour) { for (const d of [[1, 0, 0], [0, 1, 0], [0, 0, 1]]) this.line(M.sub(p, M.scale(d, size)), M.add(p, M.scale(d, size)), colour); }
  overlays() {
    const { scene } = this, size = scene.single.radius, few = this.worlds().slice(0, 64);
    this.segments.length = 0;
    if ($("axes").checked) for (const w of few.slice(0, 8)) for (let body = 0; body < scene.bodies; body++) {
      const p = this.place(w, body), q = this.turned(w, body);
      [[1, 0, 0], [0, 1, 0], [0, 0, 1]].forEach((d, k) => this.line(p, M.add(p, M.scale(M.rotate(q, d), .12 * size)), [k === 0 ? .9 : .1, k === 1 ? .7 : .1, k === 2 ? .95 : .1, 1]));
    }
    if ($("com").checked) for (const w of few) {
      const c = this.mass(w);
      this.cross(c, .05 * size, [.85, .1, .55, 1]);
      for (const plane of scene.planes) this.line(c, M.sub(c, M.scale(plane.normal, M.dot(plane.normal, M.sub(c, plane.position)))), [.85, .1, .55, .6]);
    }
    if (this.contacts && ($("contacts").checked || $("support").checked)) {
      const { points, forces, weight } = this.contacts;
      points.forEach((p, k) => {
        if (!$("contacts").checked) return;
        this.cross(p, .02 * size, [.1, .5, .9, 1]);
        if (forces && weight > 0) this.arrow(p, M.scale(forces[k], .8 * size / weight), [.1, .5, .9, 1]);
      });
      if ($("support").checked) { const h = M.hull(points); h.forEach((p, k) => this.line(p, h[(k + 1) % h.length], [.1, .65, .3, 1])); }
    }
    if (this.push) this.line(this.grip(), this.push.to, [.95, .45, .1, 1]);
    this.label();
  }
  grip() { const { world, body, point } = this.push; return M.add(this.place(world, body), M.rotate(this.turned(world, body), point)); }
  label() {
    const wanted = $("names").checked ? Math.min(this.scene.names.length, MOST_LABELS) : 0, box = $("labels"), w = Math.max(0, this.world), { clientWidth, clientHeight } = this.drawing.canvas;
    while (box.children.length > wanted) box.lastChild.remove();
    while (box.children.length < wanted) { const d = document.createElement("div"); d.className = "label"; d.textContent = this.scene.names[box.children.length]; box.append(d); }
    for (let k = 0; k < wanted; k++) {
      const p = M.apply(this.look.view, this.place(w, k)), style = box.children[k].style;
      style.left = `${(p[0] / p[3] + 1) / 2 * clientWidth}px`; style.top = `${(1 - p[1] / p[3]) / 2 * clientHeight}px`;
      style.visibility = p[3] > 0 ? "visible" : "hidden";
    }
  }
  async touch() {
    if (this.asking || !($("contacts").checked || $("support").checked)) return;
    this.asking = true;
    const answer = await this.source.post("contacts", { frame: this.index(), world: Math.max(0, this.world), shown: this.shown !== null && !this.scene.live });
    if (answer && answer.error) this.note(answer.error);
    else if (answer) { this.contacts = answer; this.note(this.scene.note); }
    setTimeout(() => { this.asking = false; }, 60);
  }

  // -- The mouse --------------------------------------------------------------------------------------------------------
  mouse() {
    const canvas = this.drawing.canvas;
    let held = null;
    canvas.oncontextmenu = event => event.preventDefault();
    canvas.onpointerdown = event => {
      canvas.setPointerCapture(event.pointerId);
      held = { x: event.clientX, y: event.clientY, pan: event.button !== 0 || event.shiftKey };
      const hit = this.scene.live && event.button === 0 && !event.shiftKey && this.drawing.pick(this.look, event.clientX, event.clientY);
      if (hit) {
        const origin = this.place(hit.world, hit.body), at = this.camera.at(event.clientX, event.clientY, origin);
        this.push = { ...hit, point: M.rotate(M.conjugate(this.turned(hit.world, hit.body)), M.sub(at, origin)), to: at };
      }
      canvas.classList.add("dragging");
    };
    canvas.onpointermove = event => {
      if (!held) { this.hovered = [event.clientX, event.clientY]; return; }
      const [dx, dy] = [event.clientX - held.x, event.clientY - held.y];
      [held.x, held.y] = [event.clientX, event.clientY];
      if (this.push) { this.push.to = this.camera.at(event.clientX, event.clientY, this.grip()); this.sendPush(); }
      else if (held.pan) this.camera.pan(dx, dy);
      else this.camera.turn(dx, dy);
    };
    canvas.onpointerup = canvas.onpointercancel = () => {
      held = null; canvas.classList.remove("dragging");
      if (this.push) { this.push = null; this.sendPush(); }
    };
    canvas.onpointerleave = () => { $("hover").hidden = true; this.hovered = null; };
    canvas.onwheel = event => { event.preventDefault(); this.camera.zoom(Math.exp(event.deltaY * .0012)); };
    setInterval(() => this.hover(), 150);
  }
  async sendPush() {
    this.again = true;
    if (this.pushing) return;
    this.pushing = true;
    while (this.again) { this.again = false; const p = this.push; await this.source.post("push", p ? { body: p.body, point: p.point, to: p.to } : {}); }
    this.pushing = false;
  }
  hover() {
    if (!this.hovered || this.push) return;
    const [x, y] = this.hovered, hit = this.drawing.pick(this.look, x, y), box = $("hover");
    this.hovered = null; box.hidden = !hit;
    if (hit) { box.textContent = this.scene.names[hit.body] + (this.scene.worlds > 1 ? ` · state ${hit.world}` : ""); box.style.left = `${x + 14}px`; box.style.top = `${y + 10}px`; }
  }

  // -- A frame ----------------------------------------------------------------------------------------------------------
  tick(now) {
    const seconds = Math.min(.1, (now - this.last) / 1000);
    this.last = now; this.frames++;
    if (now - this.counted > 1000) {
      this.fps = 1000 * this.frames / (now - this.counted); this.frames = 0; this.counted = now;
      this.drawing.keepUp(this.fps, this.playing);
      $("fps").textContent = `${this.fps.toFixed(0)} frames/s`;
    }
    if (this.preparing) $("clock").textContent = `compiling the first step … ${Math.round((now - this.preparing) / 1000)} s`;
    this.step(seconds); this.follow(seconds);
    const night = dark.matches, size = this.camera.framing.radius / 4, power = 10 ** Math.floor(Math.log10(size)), cell = power * (size / power > 5 ? 5 : size / power > 2 ? 2 : 1);
    const { framing, distance } = this.camera, reach = 12 * Math.max(framing.radius, distance / 4);
    this.look = {
      ...this.camera.view(), world: this.world, light: LIGHT, shadows: $("shadows").checked, segments: this.segments, cell, reach,
      shadowed: Math.min(reach, 1.15 * Math.max(framing.half[0], framing.half[1]) + 2 * framing.half[2]), pixel: distance * this.camera.pixel(), focal: 1 / this.camera.pixel(),
      back: night ? [.09, .11, .14] : [.93, .95, .97], tone: night ? [.17, .2, .24] : [.84, .87, .9], tone2: night ? [.21, .245, .29] : [.78, .82, .86], dark: night ? .5 : .28,
      line: night ? [.98, .55, .25, 1] : [.76, .25, .05, 1], line2: night ? [.35, .65, .95, 1] : [.1, .35, .65, 1], thick: 2.2,
    };
    this.overlays();
    this.drawing.pose(this.current.a, this.current.b, this.current.blend);
    this.drawing.show(this.look, this.playing);
    if (now - this.told > 100) { this.told = now; this.tell(); }
    this.touch();
    requestAnimationFrame(t => this.tick(t));
  }
}

Source.open().then(source => { window.kinetree = new App(source); }).catch(error => { $("note").textContent = `The scene can not be shown: ${error.message || error}`; });
