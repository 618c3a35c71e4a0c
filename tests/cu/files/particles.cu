#include "particles.h"

namespace sim {

__device__ inline void bounce(float &at, float &speed, unsigned &hits, float least, float most, float restitution) {
  if (at >= least && at <= most) return;
  at = at < least ? least : most;
  speed *= -restitution;
  ++hits;
}

// One step of all particles.
__global__ void step(Particle *particles, World world, float dt, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  Particle p = particles[i];
  p.velocity.x += world.gravity.x * dt;
  p.velocity.y += world.gravity.y * dt;
  p.velocity.z += world.gravity.z * dt;
  p.position.x += p.velocity.x * dt;
  p.position.y += p.velocity.y * dt;
  p.position.z += p.velocity.z * dt;
  bounce(p.position.x, p.velocity.x, p.hits, world.box.least.x, world.box.most.x, world.restitution);
  bounce(p.position.y, p.velocity.y, p.hits, world.box.least.y, world.box.most.y, world.restitution);
  bounce(p.position.z, p.velocity.z, p.hits, world.box.least.z, world.box.most.z, world.restitution);
  particles[i] = p;
}

__global__ void total_energy(const Particle *particles, double *energy, int n) {
  double sum = 0;
  for (int i = 0; i < n; ++i) sum += particles[i].energy();
  *energy = sum;
}

__global__ void place(Particle *particles, const Box *box, int2 counts) {
  const int i = threadIdx.x;
  const float u = float(i % counts.x) / counts.x, v = float(i / counts.x) / counts.y;
  Particle p = {};
  p.position = make_float3(box->least.x + u * (box->most.x - box->least.x), box->least.y + v * (box->most.y - box->least.y), 0);
  p.mass = 1;
  particles[i] = p;
}

Simulation::Simulation(size_t n) : particles_(n) {}
void Simulation::step(float dt) { sim::step<<<(particles_.size() + 255) / 256, 256>>>(nullptr, world_, dt, particles_.size()); }

}  // namespace sim
