// What stands where: each Markdown file of the repository that is a page of the site. Pages of docs/ that no group names stand at
// the end of the guides.
export const GROUPS = [
  {
    text: 'Begin',
    files: [
      'README.md',
      'docs/quickstart.md',
      'docs/requirements.md',
      'docs/coming-from.md',
      'docs/what-others-have.md',
      'docs/benchmarks.md',
      'docs/index.md',
    ],
  },
  {
    text: 'Guides',
    files: [
      'docs/memory.md',
      'docs/kernels.md',
      'docs/testing.md',
      'docs/graphs.md',
      'docs/promises.md',
      'docs/green-contexts.md',
      'docs/foreign-streams.md',
      'docs/default-streams.md',
      'docs/python.md',
      'docs/processes.md',
      'docs/cublas.md',
      'docs/cufft.md',
      'docs/curand.md',
      'docs/nccl.md',
      'docs/nvjpeg.md',
      'docs/onnx.md',
      'docs/errors.md',
    ],
  },
  {
    text: 'Tools',
    files: ['docs/sanitizer.md', 'docs/exploration.md', 'docs/timeline.md', 'docs/recording.md', 'docs/doctor.md'],
  },
  {
    text: 'Look up',
    files: ['docs/api.md', 'docs/environment.md', 'docs/guarantees.md', 'docs/cuda-facts.md', 'docs/run-times.md'],
  },
  {
    text: 'Examples',
    files: [
      'examples/pipeline/README.md',
      'examples/ordering-bugs/README.md',
      'examples/pytorch/README.md',
      'examples/python/README.md',
      'examples/ranks/README.md',
      'examples/vite-page/README.md',
      'examples/esbuild-server/README.md',
      'examples/node-hook/README.md',
      'examples/bun/README.md',
    ],
  },
  {
    text: 'The project',
    files: [
      'docs/architecture.md',
      'docs/glossary.md',
      'CONTRIBUTING.md',
      'docs/differential.md',
      'docs/soak.md',
      'docs/dependencies.md',
      'THIRD-PARTY.md',
      'SECURITY.md',
      'CHANGELOG.md',
    ],
  },
]

/** The path of a file's page, without its extension. */
export function pageOf(file) {
  return file
    .replace(/^docs\/index\.md$/, 'guides')
    .replace(/^docs\//, '')
    .replace(/^examples\/(.*)\/README\.md$/, 'examples/$1')
    .replace(/\.md$/, '')
    .toLowerCase()
}

/** The parts of the README that make the front page, behind its first lines: the others are on its own page. */
export const FRONT = ['Quick start', 'With PyTorch', 'Find a missing wait', 'See what ran when', 'What a call costs']
