#pragma once
#include <vector>

namespace sim {

/* A ball. */
struct alignas(16) Particle {
  float3 position;
  float mass;
  float3 velocity;
  unsigned hits;

  __host__ __device__ float energy() const {
    return 0.5f * mass * (velocity.x * velocity.x + velocity.y * velocity.y + velocity.z * velocity.z);
  }
};

typedef struct {
  float3 least, most;
} Box;

struct World {
  Box box;
  float3 gravity;
  float restitution;
  long long tick;
};

class Simulation {
 public:
  explicit Simulation(size_t n);
  void step(float dt);

 private:
  std::vector<Particle> particles_;
  World world_;
};

}  // namespace sim
