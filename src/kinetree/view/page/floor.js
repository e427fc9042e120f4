// Floors with their shadows, one visit to a pixel (software renderers pay for each), and grids.
"use strict";
const CELLS = 28; // squares of a grid on each side of the middle
const RINGS = 14, SPOKES = 40; // of a floor's disc, which reaches to the horizon
const PLACED = `${HEAD}
layout(location = 0) in vec2 at; uniform mat4 view; uniform vec3 middle, axisX, axisY, normal, eye; uniform float unit, cell, reach, focal;
vec3 placed(vec3 origin) { return origin + (axisX * at.x + axisY * at.y) * unit; }
float faded(vec3 p) { return smoothstep(.25, 1., length(p - middle) / reach); }
float seen(vec3 p) { vec3 way = eye - p; return smoothstep(1.5, 5., cell * focal * abs(dot(way, normal)) / dot(way, way)); } // squares of few pixels would flicker`;
// 'fade' is how well squares are seen, and how near the horizon is. A GPU smooths the edges of squares by the share of each that a pixel holds.
const GROUND = software => [`${PLACED}
uniform vec2 start, shift; uniform float size; out vec2 square, lit, fade;
void main() {
  vec3 p = placed(middle); fade = vec2(seen(p), faded(p)); square = (start + at * unit) / cell; lit = (at * unit / size + shift) * .5 + .5;
  gl_Position = view * vec4(p, 1); gl_Position.z += 2e-5 * gl_Position.w; // behind what stands on it
}`, `${HEAD}
in vec2 square, lit, fade; out vec4 pixel; uniform sampler2D shade; uniform float dark; uniform vec3 tone, tone2, back;
${software ? `
float check() { return 2. * fract(.5 * (floor(square.x) + floor(square.y))); }
float shadow() { return texelFetch(shade, ivec2(lit * float(textureSize(shade, 0).x)), 0).r; }` : `
float check() {
  vec2 w = max(fwidth(square), 1e-6), i = 2. * (abs(fract((square - .5 * w) * .5) - .5) - abs(fract((square + .5 * w) * .5) - .5)) / w;
  return .5 - .5 * i.x * i.y;
}
float shadow() { return texture(shade, lit).r; }`}
void main() {
  vec3 colour = mix(mix(tone, tone2, .5 + fade.x * (check() - .5)), back, fade.y);
  pixel = vec4(dark > 0. ? colour * (1. - dark * shadow()) : colour, 1);
}`];
const GRID = [`${PLACED}
uniform vec3 origin; out float strength;
void main() {
  vec3 p = placed(origin); vec2 away = abs(vec2(dot(p - middle, axisX), dot(p - middle, axisY)));
  strength = .5 * (1. - faded(p)) * seen(p) * (1. - smoothstep(.6, .95, max(away.x, away.y) / (cell * ${CELLS}.)));
  gl_Position = view * vec4(p, 1);
}`, `${HEAD}
in float strength; uniform vec3 tone2; out vec4 pixel; void main() { pixel = vec4(tone2, strength); }`];

class Floor {
  constructor(drawing) {
    Object.assign(this, { drawing, gl: drawing.gl });
    this.ground = { ...this.rings(), program: drawing.compile(GROUND(drawing.software)) };
    this.grid = { ...this.lines(), program: drawing.compile(GRID) };
  }
  list(points, index, kind) {
    return { ...this.drawing.batch(new Float32Array(points), new Uint32Array(index), index.length, () => { this.gl.vertexAttribPointer(0, 2, this.gl.FLOAT, false, 0, 0); return 1; }), kind };
  }
  // A disc of radius 1; rings lie closer together near its middle.
  rings() {
    const points = [], index = [];
    for (let r = 0; r <= RINGS; r++) for (let s = 0; s < SPOKES; s++) { const a = 2 * Math.PI * s / SPOKES, size = (r / RINGS) ** 2; points.push(size * Math.cos(a), size * Math.sin(a)); }
    for (let r = 0; r < RINGS; r++) for (let s = 0; s < SPOKES; s++) { const a = r * SPOKES + s, b = r * SPOKES + (s + 1) % SPOKES; index.push(a, a + SPOKES, b, b, a + SPOKES, b + SPOKES); }
    return this.list(points, index, this.gl.TRIANGLES);
  }
  lines() {
    const points = [], index = [], side = 2 * CELLS + 1;
    for (let i = -CELLS; i <= CELLS; i++) for (let j = -CELLS; j <= CELLS; j++) points.push(i, j);
    for (let i = 0; i < side; i++) for (let j = 0; j < side - 1; j++) index.push(i * side + j, i * side + j + 1, j * side + i, (j + 1) * side + i);
    return this.list(points, index, this.gl.LINES);
  }
  // The plane's axes, and its point below the target.
  plane({ position, normal }, look) {
    const x = M.unit(Math.abs(normal[0]) < .9 ? M.cross(M.cross(normal, [1, 0, 0]), normal) : M.cross(normal, [0, 0, 1])), y = M.cross(normal, x);
    const above = M.dot(normal, M.sub(look.target, position));
    return { normal, x, y, middle: M.sub(look.target, M.scale(normal, above)), level: M.dot(normal, position) };
  }
  show({ array, perWorld, kind, program }, { x, y, normal, middle }, look, values) {
    const gl = this.gl, { view, eye, back, cell, reach, focal, tone, tone2 } = look;
    gl.useProgram(program.program);
    this.drawing.set(program, { view, eye, back, cell, reach, focal, tone, tone2, middle, axisX: x, axisY: y, normal, ...values });
    gl.bindVertexArray(array);
    gl.drawElements(kind, perWorld, gl.UNSIGNED_INT, 0);
    gl.bindVertexArray(null);
  }
  // How far a plane's middle is from a corner where its squares start, along both of its axes.
  start({ x, y, middle }, cell) { const pair = 2 * cell; return [x, y].map(v => { const far = M.dot(v, middle); return far - pair * Math.round(far / pair); }); }
  // A floor, with the shadows that `shade` holds, or none. The first one need not ask what is behind it.
  floor(plane, look, first, shade) {
    const gl = this.gl, shift = shade ? [plane.x, plane.y].map(v => M.dot(v, M.sub(plane.middle, shade.plane.middle)) / shade.size) : [0, 0];
    if (first) gl.depthFunc(gl.ALWAYS);
    if (shade) gl.bindTexture(gl.TEXTURE_2D, shade.texture);
    this.show(this.ground, plane, look, { unit: look.reach, start: this.start(plane, look.cell), dark: shade ? look.dark : 0, size: shade ? shade.size : 1, shift, shade: 0 });
    gl.depthFunc(gl.LEQUAL);
  }
  lattice(plane, look) {
    const gl = this.gl, [a, b] = this.start(plane, look.cell), origin = M.sub(plane.middle, M.add(M.scale(plane.x, a), M.scale(plane.y, b)));
    gl.enable(gl.BLEND); gl.blendFunc(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA); gl.depthMask(false);
    this.show(this.grid, plane, look, { unit: look.cell, origin });
    gl.depthMask(true); gl.disable(gl.BLEND);
  }
}
