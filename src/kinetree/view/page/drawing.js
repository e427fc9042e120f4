// WebGL 2: all bodies of all states in one draw call (software renderers pay for each call and each instance), floors, shadows on them, and picking.
"use strict";
const SMALL = 64; // pixels: on software renderers robots smaller than this are drawn as boxes
const SHADOW_EVERY = 4; // frames of a software renderer

class Drawing {
  constructor(canvas, scene, geometry) {
    this.canvas = canvas; this.scene = scene;
    this.software = Drawing.software();
    const gl = this.gl = canvas.getContext("webgl2", { alpha: false, antialias: !this.software });
    if (!gl) throw new Error("this browser has no WebGL 2, which the viewer draws with");
    const made = list => list.map(p => this.compile(p));
    this.programs = {
      solid: made([SOLID, SHADOW, PICK]), boxes: made([FACETS, SHADOW]), wedges: made([WEDGES(false), WEDGES(true)]),
      lines: made([LINES("\nvec3 dropped(vec3 p) { return p; }"), LINES(SHADE)]), marks: this.compile(MARKS),
    };
    this.width = 1024; // of the texture with poses: the shaders know it
    this.count = scene.worlds * scene.bodies * scene.texels;
    this.rows = Math.max(1, Math.ceil(this.count / this.width));
    this.scratch = new Float32Array(this.rows * this.width * 4);
    this.poses = this.texture();
    this.shown = []; this.sharpness = 1; this.still = 0;
    this.quad = this.buffer(new Float32Array([0, -1, 0, 1, 1, -1, 1, 1]));
    this.floor = new Floor(this);
    const clear = part => part.colour[3] < 1, kinds = [scene.parts.filter(p => !clear(p)), scene.parts.filter(clear)]; // clear parts are drawn last
    this.fine = scene.solid ? kinds.map(parts => ({ ...this.solids(parts, Detail.surfaces(parts, geometry)), programs: this.programs.solid })) : [];
    this.coarse = this.software && scene.solid ? this.small(kinds.flat()) : this.fine;
    this.lines = null; this.lineLevel = null;
    this.shade = this.shadowTarget();
    this.marks = this.buffer(new Float32Array(10));
    this.pickTarget = null; this.drawn = 0;
    this.resize();
  }
  // Whether a CPU draws. Smooth edges would then take two thirds of its time.
  static software() {
    const gl = document.createElement("canvas").getContext("webgl2"), facts = gl && gl.getExtension("WEBGL_debug_renderer_info");
    return Boolean(facts) && /swiftshader|llvmpipe|softpipe|software|basic render/i.test(gl.getParameter(facts.UNMASKED_RENDERER_WEBGL));
  }
  compile([vertex, fragment]) {
    const gl = this.gl, program = gl.createProgram();
    for (const [kind, text] of [[gl.VERTEX_SHADER, vertex], [gl.FRAGMENT_SHADER, fragment]]) {
      const shader = gl.createShader(kind);
      gl.shaderSource(shader, text); gl.compileShader(shader);
      if (!gl.getShaderParameter(shader, gl.COMPILE_STATUS)) throw new Error(gl.getShaderInfoLog(shader));
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    if (!gl.getProgramParameter(program, gl.LINK_STATUS)) throw new Error(gl.getProgramInfoLog(program));
    const uniforms = {};
    for (let k = 0; k < gl.getProgramParameter(program, gl.ACTIVE_UNIFORMS); k++) {
      const { name, type } = gl.getActiveUniform(program, k);
      uniforms[name] = { at: gl.getUniformLocation(program, name), type };
    }
    return { program, uniforms };
  }
  set(program, values) {
    const gl = this.gl;
    for (const [name, value] of Object.entries(values)) {
      const u = program.uniforms[name];
      if (!u) continue;
      if (u.type === gl.FLOAT) gl.uniform1f(u.at, value);
      else if (u.type === gl.FLOAT_VEC2) gl.uniform2fv(u.at, value);
      else if (u.type === gl.FLOAT_VEC3) gl.uniform3fv(u.at, value);
      else if (u.type === gl.FLOAT_VEC4) gl.uniform4fv(u.at, value);
      else if (u.type === gl.FLOAT_MAT4) gl.uniformMatrix4fv(u.at, false, value);
      else gl.uniform1i(u.at, value);
    }
  }
  buffer(data) {
    const gl = this.gl, b = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, b); gl.bufferData(gl.ARRAY_BUFFER, data, gl.STATIC_DRAW);
    return b;
  }
  texture() {
    const gl = this.gl, t = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, t);
    gl.texStorage2D(gl.TEXTURE_2D, 1, gl.RGBA32F, this.width, this.rows);
    for (const side of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, side, gl.NEAREST);
    return t;
  }
  // All parts of all states as one list of triangles, state by state; each corner knows the slot of its pose.
  solids(parts, { points, normals, index, owner }) {
    const { worlds, bodies } = this.scene, n = owner.length;
    const data = new ArrayBuffer(24 * n * worlds), float = new Float32Array(data), byte = new Int8Array(data), paint = new Uint8Array(data), whole = new Int32Array(data);
    const every = new Uint32Array(index.length * worlds);
    for (let w = 0, at = 0, next = 0; w < worlds; w++) {
      for (let k = 0; k < index.length; k++) every[next++] = index[k] + w * n;
      for (let k = 0; k < n; k++, at++) {
        const { colour, body } = parts[owner[k]];
        for (let i = 0; i < 3; i++) {
          float[6 * at + i] = points[3 * k + i];
          byte[24 * at + 12 + i] = Math.round(127 * normals[3 * k + i]);
          paint[24 * at + 16 + i] = Math.round(255 * colour[i]);
        }
        paint[24 * at + 19] = Math.round(255 * colour[3]);
        whole[6 * at + 5] = w * bodies + body;
      }
    }
    const gl = this.gl;
    return this.batch(float, every, index.length, () => {
      gl.vertexAttribPointer(0, 3, gl.FLOAT, false, 24, 0); gl.vertexAttribPointer(1, 3, gl.BYTE, true, 24, 12);
      gl.vertexAttribPointer(2, 4, gl.UNSIGNED_BYTE, true, 24, 16); gl.vertexAttribIPointer(3, 1, gl.INT, 24, 20);
      return 4;
    });
  }
  // What stands for small robots: boxes, and wedges for thin parts.
  small(parts) {
    const gl = this.gl, { worlds, bodies } = this.scene, thin = parts.filter(p => Detail.thin(p, this.scene.single.radius)), thick = parts.filter(p => !thin.includes(p));
    const { points, axes, corners, index, owner } = Detail.wedges(thin), n = owner.length;
    const data = new ArrayBuffer(44 * n * worlds), float = new Float32Array(data), paint = new Uint8Array(data), whole = new Int32Array(data), every = new Uint32Array(index.length * worlds);
    for (let w = 0, at = 0, next = 0; w < worlds; w++) {
      for (const corner of index) every[next++] = corner + w * n;
      for (let k = 0; k < n; k++, at++) {
        const { colour, body } = thin[owner[k]];
        for (let i = 0; i < 3; i++) { float[11 * at + i] = points[3 * k + i]; float[11 * at + 3 + i] = axes[3 * k + i]; float[11 * at + 8 + i] = corners[3 * k + i]; }
        colour.forEach((c, i) => { paint[44 * at + 24 + i] = Math.round(255 * c); });
        whole[11 * at + 7] = w * bodies + body;
      }
    }
    const wedges = this.batch(float, every, index.length, () => {
      gl.vertexAttribPointer(0, 3, gl.FLOAT, false, 44, 0); gl.vertexAttribPointer(1, 3, gl.FLOAT, false, 44, 12);
      gl.vertexAttribPointer(2, 4, gl.UNSIGNED_BYTE, true, 44, 24); gl.vertexAttribIPointer(3, 1, gl.INT, 44, 28); gl.vertexAttribPointer(4, 3, gl.FLOAT, false, 44, 32);
      return 5;
    });
    return [{ ...this.solids(thick, Detail.boxes(thick)), programs: this.programs.boxes }, { ...wedges, programs: this.programs.wedges, flat: true }];
  }
  // Lines along the tree: four corners each, moved apart on the screen. Made anew when the camera has come much nearer, or gone.
  segments(look) {
    const level = Math.floor(Math.log2(look.pixel));
    if (level === this.lineLevel) return this.lines;
    this.lineLevel = level;
    if (this.lines) { this.gl.deleteVertexArray(this.lines.array); for (const b of this.lines.buffers) this.gl.deleteBuffer(b); }
    const { worlds, bodies, parents } = this.scene, at = this.scratch;
    const chords = Detail.chords(parents, i => at.subarray(4 * i, 4 * i + 3), 2 ** level), n = chords.length / 2;
    const data = new Int32Array(16 * n * worlds), index = new Uint32Array(6 * n * worlds);
    for (let w = 0, k = 0; w < worlds; w++) for (let i = 0; i < n; i++, k++) {
      const own = w * bodies + chords[2 * i], up = w * bodies + chords[2 * i + 1];
      data.set([own, up, 0, -1, own, up, 0, 1, own, up, 1, -1, own, up, 1, 1], 16 * k);
      index.set([4 * k, 4 * k + 1, 4 * k + 2, 4 * k + 2, 4 * k + 1, 4 * k + 3], 6 * k);
    }
    this.lines = { ...this.batch(data, index, 6 * n, () => { this.gl.vertexAttribIPointer(0, 4, this.gl.INT, 16, 0); return 1; }), programs: this.programs.lines };
    return this.lines;
  }
  batch(data, index, perWorld, describe) {
    const gl = this.gl, array = gl.createVertexArray(), corners = gl.createBuffer();
    gl.bindVertexArray(array);
    const buffers = [this.buffer(data), corners];
    for (let k = describe(); k-- > 0;) gl.enableVertexAttribArray(k);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, corners);
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, index, gl.STATIC_DRAW);
    gl.bindVertexArray(null);
    return { array, perWorld, buffers };
  }
  // While a software renderer plays: fewer pixels where it falls behind, more again where it has time to spare.
  keepUp(fps, playing) {
    this.sharpness = this.software && playing ? Math.max(.6, Math.min(1, this.sharpness * (fps < 33 ? .8 : fps > 50 ? 1.1 : 1))) : 1;
  }
  resize() {
    const { clientWidth, clientHeight } = this.canvas, ratio = this.ratio = this.sharpness * Math.min(window.devicePixelRatio || 1, 2);
    const w = Math.max(1, Math.round(clientWidth * ratio)), h = Math.max(1, Math.round(clientHeight * ratio));
    if (this.canvas.width !== w || this.canvas.height !== h) { this.canvas.width = w; this.canvas.height = h; this.pickTarget = null; }
  }
  // Show what lies between two frames: their poses (Float32Array) and how far it is from the first to the second.
  pose(a, b, blend) {
    if (this.shown[0] === a && this.shown[1] === b && this.shown[2] === blend) return;
    this.shown = [a, b, blend];
    const gl = this.gl, { scratch } = this, end = 4 * this.count;
    if (blend === 0 || a === b) scratch.set(a.subarray(0, end));
    else if (!this.scene.solid) for (let k = 0; k < end; k++) scratch[k] = a[k] + (b[k] - a[k]) * blend;
    else for (let k = 0; k < end; k += 8) {
      for (let i = k; i < k + 3; i++) scratch[i] = a[i] + (b[i] - a[i]) * blend;
      const i = k + 4, s = a[i] * b[i] + a[i + 1] * b[i + 1] + a[i + 2] * b[i + 2] + a[i + 3] * b[i + 3] < 0 ? -blend : blend;
      const w = a[i] * (1 - blend) + b[i] * s, x = a[i + 1] * (1 - blend) + b[i + 1] * s, y = a[i + 2] * (1 - blend) + b[i + 2] * s, z = a[i + 3] * (1 - blend) + b[i + 3] * s;
      const size = 1 / Math.sqrt(w * w + x * x + y * y + z * z);
      scratch[i] = w * size; scratch[i + 1] = x * size; scratch[i + 2] = y * size; scratch[i + 3] = z * size;
    }
    gl.bindTexture(gl.TEXTURE_2D, this.poses);
    gl.texSubImage2D(gl.TEXTURE_2D, 0, 0, 0, this.width, this.rows, gl.RGBA, gl.FLOAT, scratch);
  }
  // Draw, unless all is as it was: a picture that stands still takes no time. Shadows may be some frames behind, so it goes on for that long.
  show(look, moving) {
    this.resize();
    const seen = JSON.stringify([look, this.canvas.width, this.canvas.height]), same = !moving && this.shown === this.posed && seen === this.seen;
    this.still = same ? this.still + 1 : 0;
    [this.posed, this.seen] = [this.shown, seen];
    if (this.still < SHADOW_EVERY) this.draw(look);
  }
  draw(look) {
    const gl = this.gl, { scene } = this;
    gl.enable(gl.DEPTH_TEST); gl.depthFunc(gl.LEQUAL); gl.depthMask(true); gl.disable(gl.BLEND);
    const floors = scene.planes.map(plane => this.floor.plane(plane, look)), shadows = look.shadows && floors.length > 0;
    // The first floor has shadows. They take long on a software renderer, so there they follow every fourth frame.
    if (shadows && (!this.software || this.drawn++ % SHADOW_EVERY === 0)) this.shadow(floors[0], look);
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(...look.back, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    floors.forEach((floor, k) => this.floor.floor(floor, look, k === 0, shadows && k === 0 ? this.shade : null));
    if (!floors.length) this.floor.lattice(this.floor.plane(scene.grid, look), look);
    this.bodies(look, 0);
    this.markings(look);
  }
  shadowTarget() {
    const gl = this.gl, pixels = !this.software ? 2048 : this.scene.worlds > 16 ? 384 : 1024, texture = gl.createTexture(), frame = gl.createFramebuffer();
    gl.bindTexture(gl.TEXTURE_2D, texture);
    gl.texStorage2D(gl.TEXTURE_2D, 1, gl.R8, pixels, pixels);
    for (const side of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, side, gl.LINEAR);
    for (const side of [gl.TEXTURE_WRAP_S, gl.TEXTURE_WRAP_T]) gl.texParameteri(gl.TEXTURE_2D, side, gl.CLAMP_TO_EDGE);
    gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, texture, 0);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    return { pixels, texture, frame, plane: null, size: 1 };
  }
  // Where light does not reach a floor: all bodies, dropped onto it along the light, seen from above.
  shadow(plane, look) {
    const { normal, x, y, middle, level } = plane, gl = this.gl, { pixels, frame } = this.shade, s = look.shadowed;
    Object.assign(this.shade, { plane, size: s });
    const view = [x[0] / s, y[0] / s, 0, 0, x[1] / s, y[1] / s, 0, 0, x[2] / s, y[2] / s, 0, 0, -M.dot(x, middle) / s, -M.dot(y, middle) / s, 0, 1];
    gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
    gl.viewport(0, 0, pixels, pixels); gl.clearColor(0, 0, 0, 0); gl.clear(gl.COLOR_BUFFER_BIT);
    gl.disable(gl.DEPTH_TEST);
    this.bodies({ ...look, view, thick: Math.max(1, look.thick * look.pixel / (2 * s / pixels)) }, 1, [...normal, level], pixels);
    gl.enable(gl.DEPTH_TEST);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
  }
  // mode 0: as they look; 1: their shadows on a plane; 2: their numbers, for picking
  bodies(look, mode, plane = [0, 0, 1, 0], size = 0) {
    const gl = this.gl, { scene } = this, small = this.software && mode < 2 && 2 * scene.single.radius < SMALL * look.pixel;
    const batches = scene.solid ? small ? this.coarse : this.fine : [this.segments(look)];
    const [first, count] = look.world < 0 ? [0, scene.worlds] : [look.world, 1];
    const values = { poses: 0, narrow: mode ? 0 : look.pixel / this.ratio, bodies: scene.bodies, view: look.view, light: look.light, eye: look.eye, plane,
      screen: size ? [size, size] : [this.canvas.width, this.canvas.height], thick: look.thick * (size ? 1 : this.ratio),
      colour: mode === 1 ? [1, 1, 1, 1] : look.line, colour2: mode === 1 ? [1, 1, 1, 1] : look.line2 };
    gl.bindTexture(gl.TEXTURE_2D, this.poses);
    batches.forEach(({ array, perWorld, programs, flat }, k) => {
      if (!perWorld) return;
      gl.useProgram(programs[mode].program);
      this.set(programs[mode], values);
      if (mode === 0 && k === 1 && !small) { gl.enable(gl.BLEND); gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA); }
      if (scene.solid && !flat && (small || mode === 1 && this.software)) gl.enable(gl.CULL_FACE); // half the triangles
      gl.bindVertexArray(array);
      gl.drawElements(gl.TRIANGLES, perWorld * count, gl.UNSIGNED_INT, 4 * perWorld * first);
      gl.disable(gl.CULL_FACE);
    });
    gl.disable(gl.BLEND);
    gl.bindVertexArray(null);
  }
  // Segments in world coordinates, drawn over all else: [from 3, to 3, colour 4] each.
  markings(look) {
    if (!look.segments.length) return;
    const gl = this.gl, p = this.programs.marks;
    gl.useProgram(p.program);
    this.set(p, { view: look.view, screen: [this.canvas.width, this.canvas.height], thick: 3 * this.ratio });
    gl.bindBuffer(gl.ARRAY_BUFFER, this.quad); gl.enableVertexAttribArray(0); gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.marks); gl.bufferData(gl.ARRAY_BUFFER, new Float32Array(look.segments), gl.DYNAMIC_DRAW);
    for (const [k, size, at] of [[1, 3, 0], [2, 3, 12], [3, 4, 24]]) { gl.enableVertexAttribArray(k); gl.vertexAttribPointer(k, size, gl.FLOAT, false, 40, at); gl.vertexAttribDivisor(k, 1); }
    gl.disable(gl.DEPTH_TEST); gl.enable(gl.BLEND); gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, look.segments.length / 10);
    gl.enable(gl.DEPTH_TEST); gl.disable(gl.BLEND);
    for (const k of [1, 2, 3]) { gl.vertexAttribDivisor(k, 0); gl.disableVertexAttribArray(k); }
  }
  // The body under a pixel of the page: {world, body}, or null.
  pick(look, x, y) {
    const gl = this.gl, { scene } = this;
    if (!scene.solid) return null;
    const w = this.canvas.width, h = this.canvas.height, ratio = w / this.canvas.clientWidth;
    if (!this.pickTarget) {
      this.pickTarget = gl.createFramebuffer();
      gl.bindFramebuffer(gl.FRAMEBUFFER, this.pickTarget);
      for (const [format, place] of [[gl.RGBA8, gl.COLOR_ATTACHMENT0], [gl.DEPTH_COMPONENT16, gl.DEPTH_ATTACHMENT]]) {
        const r = gl.createRenderbuffer();
        gl.bindRenderbuffer(gl.RENDERBUFFER, r); gl.renderbufferStorage(gl.RENDERBUFFER, format, w, h);
        gl.framebufferRenderbuffer(gl.FRAMEBUFFER, place, gl.RENDERBUFFER, r);
      }
    }
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.pickTarget);
    const px = Math.round(x * ratio), py = h - 1 - Math.round(y * ratio), bytes = new Uint8Array(4);
    gl.enable(gl.SCISSOR_TEST); gl.scissor(px, py, 1, 1); gl.viewport(0, 0, w, h);
    gl.clearColor(0, 0, 0, 0); gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    this.bodies(look, 2);
    gl.readPixels(px, py, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, bytes);
    gl.disable(gl.SCISSOR_TEST); gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    const id = bytes[0] + (bytes[1] << 8) + (bytes[2] << 16) - 1;
    return id < 0 || id % scene.bodies === scene.bodies - 1 ? null : { world: Math.floor(id / scene.bodies), body: id % scene.bodies };
  }
}
