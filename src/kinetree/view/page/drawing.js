// WebGL 2: solids whose poses lie in a texture, in one draw call (software renderers pay for each call and each instance), lines of even width, floors, shadows on them, and picking.
"use strict";
const HEAD = `#version 300 es
precision highp float; precision highp int; precision highp sampler2D;`;
const POSES = `
uniform sampler2D poses; uniform int bodies, width;
vec4 texel(int k) { return texelFetch(poses, ivec2(k % width, k / width), 0); }
vec3 rotate(vec4 q, vec3 v) { vec3 t = 2. * cross(q.yzw, v); return v + q.x * t + cross(q.yzw, t); }`;
const SOLID = [`${HEAD}${POSES}
layout(location = 0) in vec3 at; layout(location = 1) in vec3 normal; layout(location = 2) in vec4 paint; layout(location = 3) in int slot;
uniform mat4 view; out vec3 n; out vec3 p; out vec4 colour;
void main() {
  int k = 2 * slot;
  vec4 q = texel(k + 1); vec3 world = texel(k).xyz + rotate(q, at);
  n = rotate(q, normal); p = world; colour = paint;
  gl_Position = view * vec4(world, 1);
}`, `${HEAD}
in vec3 n; in vec3 p; in vec4 colour; out vec4 pixel; uniform vec3 light, eye;
void main() {
  vec3 m = normalize(n), v = normalize(eye - p); if (dot(m, v) < 0.) m = -m;
  float sun = max(0., dot(m, light)), sky = .5 + .5 * m.z, shine = pow(max(0., dot(m, normalize(light + v))), 32.);
  pixel = vec4(colour.rgb * (.34 + .2 * sky + .58 * sun) + .1 * shine, colour.a);
}`];
// Programs of their own for shadows and picking: software renderers run both sides of a branch.
const SHADE = `
uniform vec4 plane; uniform vec3 light;
vec3 dropped(vec3 p) { return p - light * (max(0., dot(plane.xyz, p) - plane.w) / dot(plane.xyz, light)); }`;
const SHADOW = [`${HEAD}${POSES}${SHADE}
layout(location = 0) in vec3 at; layout(location = 3) in int slot; uniform mat4 view;
void main() { gl_Position = view * vec4(dropped(texel(2 * slot).xyz + rotate(texel(2 * slot + 1), at)), 1); }`, `${HEAD}
out vec4 pixel; void main() { pixel = vec4(1); }`];
const PICK = [`${HEAD}${POSES}
layout(location = 0) in vec3 at; layout(location = 3) in int slot; uniform mat4 view; flat out int id;
void main() { id = slot + 1; gl_Position = view * vec4(texel(2 * slot).xyz + rotate(texel(2 * slot + 1), at), 1); }`, `${HEAD}
flat in int id; out vec4 pixel; void main() { pixel = vec4(id & 255, (id >> 8) & 255, (id >> 16) & 255, 255) / 255.; }`];
const LINES = drop => [`${HEAD}${POSES}${drop}
layout(location = 0) in ivec4 what; // own slot, parent's slot, end, side
uniform mat4 view; uniform vec2 screen; uniform float thick; out float along;
void main() {
  vec2 corner = vec2(what.zw);
  vec4 a = view * vec4(dropped(texel(what.y).xyz), 1), b = view * vec4(dropped(texel(what.x).xyz), 1);
  vec2 d = (b.xy / b.w - a.xy / a.w) * screen; d = length(d) > 1e-6 ? normalize(d) : vec2(1, 0);
  vec4 c = corner.x < .5 ? a : b; float out_ = corner.x < .5 ? -1. : 1.;
  vec2 push = (vec2(-d.y, d.x) * corner.y + d * out_ * .5) * thick;
  gl_Position = min(a.w, b.w) <= 0. ? vec4(2, 2, 2, 1) : vec4(c.xy + push / screen * c.w, c.zw);
  along = float(what.x % bodies) / float(max(1, bodies - 1));
}`, `${HEAD}
in float along; out vec4 pixel; uniform vec4 colour, colour2;
void main() { pixel = mix(colour, colour2, along); }`];
const MARKS = [`${HEAD}
layout(location = 0) in vec2 corner; layout(location = 1) in vec3 from; layout(location = 2) in vec3 to; layout(location = 3) in vec4 paint;
uniform mat4 view; uniform vec2 screen; uniform float thick; out vec4 c4;
void main() {
  vec4 a = view * vec4(from, 1), b = view * vec4(to, 1); vec2 d = (b.xy / b.w - a.xy / a.w) * screen;
  d = length(d) > 1e-6 ? normalize(d) : vec2(1, 0);
  vec4 c = corner.x < .5 ? a : b; vec2 push = (vec2(-d.y, d.x) * corner.y + d * (corner.x < .5 ? -.5 : .5)) * thick;
  gl_Position = min(a.w, b.w) <= 0. ? vec4(2, 2, 2, 1) : vec4(c.xy + push / screen * c.w, c.zw); c4 = paint;
}`, `${HEAD}
in vec4 c4; out vec4 pixel; void main() { pixel = c4; }`];
const FLOOR = [`${HEAD}
layout(location = 0) in vec2 corner; uniform mat4 view; uniform vec3 middle, sideX, sideY; out vec2 xy; out vec3 p;
void main() { p = middle + sideX * corner.x + sideY * corner.y; xy = corner; gl_Position = view * vec4(p, 1); }`, `${HEAD}
in vec2 xy; in vec3 p; out vec4 pixel; uniform vec3 axisX, axisY; uniform float cell, dark, spread; uniform vec3 tone, tone2, back; uniform bool grid, hard; uniform sampler2D shade;
void main() {
  vec2 c = vec2(dot(p, axisX), dot(p, axisY)) / cell; float far = smoothstep(.25, 1., length(xy));
  vec2 w = fwidth(c); float fine = 1. - smoothstep(.2, .8, max(w.x, w.y));
  if (grid) { vec2 g = abs(fract(c - .5) - .5) / max(w, 1e-6); float line = 1. - min(1., min(g.x, g.y)); pixel = vec4(tone2, line * (1. - far) * .5 * fine); return; }
  vec2 s = clamp((abs(fract(c * .5) - .5) - .25) / max(w * .5, 1e-6) + .5, 0., 1.);
  float check = mix(.5, s.x * (1. - s.y) + (1. - s.x) * s.y, fine);
  vec2 at = xy * spread * .5 + .5; bool in_ = spread > 0. && all(greaterThan(at, vec2(0))) && all(lessThan(at, vec2(1)));
  float dim = in_ ? dark * (hard ? texelFetch(shade, ivec2(at * float(textureSize(shade, 0).x)), 0).r : texture(shade, at).r) : 0.;
  pixel = vec4(mix(mix(tone, tone2, check), back, far) * (1. - dim), 1);
}`];

class Drawing {
  constructor(canvas, scene, geometry) {
    this.canvas = canvas; this.scene = scene;
    this.software = Drawing.software();
    const gl = this.gl = canvas.getContext("webgl2", { alpha: false, antialias: !this.software });
    if (!gl) throw new Error("this browser has no WebGL 2, which the viewer draws with");
    this.programs = {
      solid: [SOLID, SHADOW, PICK].map(p => this.compile(p)), lines: [LINES("\nvec3 dropped(vec3 p) { return p; }"), LINES(SHADE)].map(p => this.compile(p)),
      marks: this.compile(MARKS), floor: this.compile(FLOOR),
    };
    this.width = 1024;
    this.count = scene.worlds * scene.bodies * scene.texels;
    this.rows = Math.max(1, Math.ceil(this.count / this.width));
    this.scratch = new Float32Array(this.rows * this.width * 4);
    this.poses = this.texture();
    this.shown = [];
    this.quad = this.buffer(new Float32Array([0, -1, 0, 1, 1, -1, 1, 1]));
    this.square = this.buffer(new Float32Array([-1, -1, 1, -1, -1, 1, 1, 1]));
    const clear = part => part.colour[3] < 1;
    this.batches = scene.solid ? [this.solids(scene.parts.filter(p => !clear(p)), geometry), this.solids(scene.parts.filter(clear), geometry)] : [this.segments()];
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
  solids(parts, geometry) {
    const { worlds, bodies } = this.scene, corners = parts.reduce((n, p) => n + p.corners, 0), triangles = parts.reduce((n, p) => n + p.triangles, 0);
    const data = new ArrayBuffer(24 * corners * worlds), float = new Float32Array(data), byte = new Int8Array(data), paint = new Uint8Array(data), whole = new Int32Array(data);
    const index = new Uint32Array(3 * triangles * worlds);
    let at = 0, next = 0;
    for (let w = 0; w < worlds; w++) for (const part of parts) {
      const given = new Float32Array(geometry, 4 * part.offset, 6 * part.corners), faces = new Uint32Array(geometry, 4 * (part.offset + 6 * part.corners), 3 * part.triangles);
      for (let k = 0; k < faces.length; k++) index[next++] = faces[k] + at;
      for (let k = 0; k < part.corners; k++, at++) for (let i = 0; i < 3; i++) {
        float[6 * at + i] = given[6 * k + i];
        byte[24 * at + 12 + i] = Math.round(127 * given[6 * k + 3 + i]);
        paint[24 * at + 16 + i] = Math.round(255 * part.colour[i]);
        paint[24 * at + 19] = Math.round(255 * part.colour[3]);
        whole[6 * at + 5] = w * bodies + part.body;
      }
    }
    const gl = this.gl;
    return this.batch(float, index, 3 * triangles, () => {
      gl.vertexAttribPointer(0, 3, gl.FLOAT, false, 24, 0); gl.vertexAttribPointer(1, 3, gl.BYTE, true, 24, 12);
      gl.vertexAttribPointer(2, 4, gl.UNSIGNED_BYTE, true, 24, 16); gl.vertexAttribIPointer(3, 1, gl.INT, 24, 20);
      return 4;
    });
  }
  // Lines from bodies to their parents: four corners each, moved apart on the screen.
  segments() {
    const { worlds, bodies, parents } = this.scene, n = parents.length, data = new Int32Array(16 * n * worlds), index = new Uint32Array(6 * n * worlds);
    for (let w = 0, k = 0; w < worlds; w++) for (let i = 0; i < n; i++, k++) {
      const own = w * bodies + i, up = parents[i] < 0 ? own : w * bodies + parents[i];
      data.set([own, up, 0, -1, own, up, 0, 1, own, up, 1, -1, own, up, 1, 1], 16 * k);
      index.set([4 * k, 4 * k + 1, 4 * k + 2, 4 * k + 2, 4 * k + 1, 4 * k + 3], 6 * k);
    }
    return this.batch(data, index, 6 * n, () => { this.gl.vertexAttribIPointer(0, 4, this.gl.INT, 16, 0); return 1; });
  }
  batch(data, index, perWorld, describe) {
    const gl = this.gl, array = gl.createVertexArray();
    gl.bindVertexArray(array);
    this.buffer(data);
    for (let k = describe(); k-- > 0;) gl.enableVertexAttribArray(k);
    gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, gl.createBuffer());
    gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, index, gl.STATIC_DRAW);
    gl.bindVertexArray(null);
    return { array, perWorld };
  }
  resize() {
    const ratio = Math.min(window.devicePixelRatio || 1, 2), w = Math.round(innerWidth * ratio), h = Math.round(innerHeight * ratio);
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
  draw(look) {
    const gl = this.gl, { scene } = this;
    this.resize();
    gl.enable(gl.DEPTH_TEST); gl.depthFunc(gl.LEQUAL); gl.depthMask(true); gl.disable(gl.BLEND);
    const floors = scene.planes.map(plane => this.plane(plane, look));
    // The first floor has shadows. They take most of a software renderer's time, so there they follow every fourth frame.
    if (look.shadows && floors.length && (!this.software || this.drawn++ % 4 === 0)) this.shadow(floors[0], look);
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(...look.back, 1);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    floors.forEach((floor, k) => this.floor(floor, look, false, look.shadows && k === 0));
    if (!floors.length) {
      gl.enable(gl.BLEND); gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA); gl.depthMask(false);
      this.floor(this.plane(scene.grid, look), look, true, false);
      gl.depthMask(true); gl.disable(gl.BLEND);
    }
    this.bodies(look, 0);
    this.markings(look);
  }
  // The part of a plane below the target, with axes of its own.
  plane({ position, normal }, look) {
    const x = M.unit(Math.abs(normal[0]) < .9 ? M.cross(M.cross(normal, [1, 0, 0]), normal) : M.cross(normal, [0, 0, 1])), y = M.cross(normal, x);
    const above = M.dot(normal, M.sub(look.target, position));
    return { normal, x, y, middle: M.sub(look.target, M.scale(normal, above)), level: M.dot(normal, position) };
  }
  floor({ x, y, middle }, look, grid, shadows) {
    const gl = this.gl, p = this.programs.floor, far = look.reach;
    gl.useProgram(p.program);
    gl.bindTexture(gl.TEXTURE_2D, this.shade.texture);
    this.set(p, { view: look.view, middle, sideX: M.scale(x, far), sideY: M.scale(y, far), axisX: x, axisY: y, cell: look.cell, tone: look.tone, tone2: look.tone2,
      back: look.back, grid: grid ? 1 : 0, hard: this.software ? 1 : 0, shade: 0, dark: look.dark, spread: shadows ? far / look.shadowed : 0 });
    gl.bindBuffer(gl.ARRAY_BUFFER, this.square);
    gl.enableVertexAttribArray(0); gl.vertexAttribPointer(0, 2, gl.FLOAT, false, 0, 0);
    gl.enable(gl.POLYGON_OFFSET_FILL); gl.polygonOffset(1, 1);
    gl.drawArrays(gl.TRIANGLE_STRIP, 0, 4);
    gl.disable(gl.POLYGON_OFFSET_FILL);
  }
  shadowTarget() {
    const gl = this.gl, size = this.software ? 384 : 2048, texture = gl.createTexture(), frame = gl.createFramebuffer();
    gl.bindTexture(gl.TEXTURE_2D, texture);
    gl.texStorage2D(gl.TEXTURE_2D, 1, gl.R8, size, size);
    for (const side of [gl.TEXTURE_MIN_FILTER, gl.TEXTURE_MAG_FILTER]) gl.texParameteri(gl.TEXTURE_2D, side, gl.LINEAR);
    gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
    gl.framebufferTexture2D(gl.FRAMEBUFFER, gl.COLOR_ATTACHMENT0, gl.TEXTURE_2D, texture, 0);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    return { size, texture, frame };
  }
  // Where light does not reach a floor: all bodies, dropped onto it along the light, seen from above.
  shadow({ normal, x, y, middle, level }, look) {
    const gl = this.gl, { size, frame } = this.shade, s = look.shadowed;
    const view = [x[0] / s, y[0] / s, 0, 0, x[1] / s, y[1] / s, 0, 0, x[2] / s, y[2] / s, 0, 0, -M.dot(x, middle) / s, -M.dot(y, middle) / s, 0, 1];
    gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
    gl.viewport(0, 0, size, size); gl.clearColor(0, 0, 0, 0); gl.clear(gl.COLOR_BUFFER_BIT);
    gl.disable(gl.DEPTH_TEST);
    if (this.software && this.scene.solid) gl.enable(gl.CULL_FACE); // half the pixels
    this.bodies({ ...look, view, thick: Math.max(1, look.thick * look.pixel / (2 * s / size)) }, 1, [...normal, level], size);
    gl.enable(gl.DEPTH_TEST); gl.disable(gl.CULL_FACE);
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
  }
  // mode 0: as they look; 1: their shadows on a plane; 2: their numbers, for picking
  bodies(look, mode, plane = [0, 0, 1, 0], size = 0) {
    const gl = this.gl, { scene } = this, p = this.programs[scene.solid ? "solid" : "lines"][mode];
    const [first, count] = look.world < 0 ? [0, scene.worlds] : [look.world, 1];
    gl.useProgram(p.program);
    gl.bindTexture(gl.TEXTURE_2D, this.poses);
    this.set(p, { poses: 0, bodies: scene.bodies, width: this.width, view: look.view, light: look.light, eye: look.eye, plane,
      screen: size ? [size, size] : [this.canvas.width, this.canvas.height], thick: look.thick * (size ? 1 : window.devicePixelRatio || 1),
      colour: mode === 1 ? [1, 1, 1, 1] : look.line, colour2: mode === 1 ? [1, 1, 1, 1] : look.line2 });
    this.batches.forEach(({ array, perWorld }, k) => {
      if (!perWorld) return;
      if (mode === 0 && k === 1) { gl.enable(gl.BLEND); gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA); }
      gl.bindVertexArray(array);
      gl.drawElements(gl.TRIANGLES, perWorld * count, gl.UNSIGNED_INT, 4 * perWorld * first);
    });
    if (mode === 0) gl.disable(gl.BLEND);
    gl.bindVertexArray(null);
  }
  // Segments in world coordinates, drawn over all else: [from 3, to 3, colour 4] each.
  markings(look) {
    if (!look.segments.length) return;
    const gl = this.gl, p = this.programs.marks;
    gl.useProgram(p.program);
    this.set(p, { view: look.view, screen: [this.canvas.width, this.canvas.height], thick: 3 * (window.devicePixelRatio || 1) });
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
    const w = this.canvas.width, h = this.canvas.height, ratio = w / innerWidth;
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
