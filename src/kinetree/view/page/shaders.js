// Programs for WebGL 2: solids whose poses lie in a texture, lines of even width, their shadows and their numbers.
"use strict";
const HEAD = `#version 300 es
precision highp float; precision highp int; precision highp sampler2D;`;
const POSES = `
uniform sampler2D poses; uniform int bodies;
vec4 texel(int k) { return texelFetch(poses, ivec2(k & 1023, k >> 10), 0); }
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
// Boxes that stand for small parts: one colour to a face, found at its corner.
const FACETS = [`${HEAD}${POSES}
layout(location = 0) in vec3 at; layout(location = 1) in vec3 normal; layout(location = 2) in vec4 paint; layout(location = 3) in int slot;
uniform mat4 view; uniform vec3 light; flat out vec4 colour;
void main() {
  vec4 q = texel(2 * slot + 1); vec3 m = rotate(q, normal);
  colour = vec4(paint.rgb * (.34 + .2 * (.5 + .5 * m.z) + .58 * max(0., dot(m, light))), paint.a);
  gl_Position = view * vec4(texel(2 * slot).xyz + rotate(q, at), 1);
}`, `${HEAD}
flat in vec4 colour; out vec4 pixel; void main() { pixel = colour; }`];
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
// Thin parts that are small on the screen: a triangle that turns its face to the eye, or to the light for its shadow.
const WEDGES = shadow => [`${HEAD}${POSES}${shadow ? SHADE : "uniform vec3 light;"}
layout(location = 0) in vec3 at; layout(location = 1) in vec3 axis; layout(location = 2) in vec4 paint; layout(location = 3) in int slot; layout(location = 4) in vec3 corner;
uniform mat4 view; uniform vec3 eye; uniform float narrow; flat out vec4 colour;
void main() {
  vec4 q = texel(2 * slot + 1); vec3 p = texel(2 * slot).xyz + rotate(q, at), a = rotate(q, axis), side = cross(a, ${shadow ? "light" : "eye - p"});
  side *= max(corner.z, narrow) / max(length(side), 1e-12); // what is narrower than a pixel would be seen now and then
  p += a * corner.x + side * corner.y;
  ${shadow ? "colour = vec4(1); p = dropped(p);" : "vec3 m = normalize(cross(side, a)); colour = vec4(paint.rgb * (.34 + .2 * (.5 + .5 * m.z) + .58 * max(0., dot(m, light))), paint.a);"}
  gl_Position = view * vec4(p, 1);
}`, `${HEAD}
flat in vec4 colour; out vec4 pixel; void main() { pixel = colour; }`];
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
