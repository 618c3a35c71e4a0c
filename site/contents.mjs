// What stands where: each Markdown file of the repository that is a page of the site. Pages of docs/ that no group names stand at
// the end of the guides.
export const GROUPS = [
  {
    text: 'Begin',
    files: ['README.md', 'docs/index.md', 'docs/guides/requirements.md', 'docs/guides/coming-from.md'],
  },
  {
    text: 'Tutorials',
    files: [
      'docs/tutorials/first-stream.md',
      'docs/tutorials/overlap.md',
      'docs/tutorials/files.md',
      'docs/tutorials/server.md',
      'docs/tutorials/model.md',
      'docs/tutorials/several-gpus.md',
    ],
  },
  {
    text: 'Concepts',
    files: [
      'docs/concepts/streams.md',
      'docs/concepts/events.md',
      'docs/concepts/memory.md',
      'docs/concepts/graphs.md',
      'docs/concepts/default-streams.md',
    ],
  },
  {
    text: 'Guides',
    files: [
      'docs/guides/troubleshooting.md',
      'docs/guides/performance.md',
      'docs/guides/deployment.md',
      'docs/guides/kernels.md',
      'docs/guides/cu.md',
      'docs/guides/triton.md',
      'docs/guides/testing.md',
      'docs/guides/sanitizer.md',
      'docs/guides/exploration.md',
      'docs/guides/timeline.md',
      'docs/guides/recording.md',
      'docs/guides/whole-process.md',
      'docs/guides/doctor.md',
      'docs/guides/promises.md',
      'docs/guides/green-contexts.md',
      'docs/guides/foreign-streams.md',
      'docs/guides/python.md',
      'docs/guides/processes.md',
      'docs/guides/cublas.md',
      'docs/guides/cufft.md',
      'docs/guides/curand.md',
      'docs/guides/nccl.md',
      'docs/guides/nvjpeg.md',
      'docs/guides/onnx.md',
    ],
  },
  {
    text: 'Look up',
    files: [
      'docs/reference/api.md',
      'docs/reference/memory.md',
      'docs/reference/graphs.md',
      'docs/reference/errors.md',
      'docs/reference/cuda-runtime.md',
      'docs/reference/environment.md',
      'docs/reference/run-times.md',
    ],
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
      'examples/triton/README.md',
      'examples/node-hook/README.md',
      'examples/bun/README.md',
    ],
  },
  {
    text: 'The project',
    files: [
      'docs/internals/how-a-launch-works.md',
      'docs/internals/architecture.md',
      'docs/internals/recipes.md',
      'docs/internals/guarantees.md',
      'docs/internals/cuda-facts.md',
      'docs/internals/exploration.md',
      'docs/internals/sanitizer.md',
      'docs/internals/timeline.md',
      'docs/internals/recording.md',
      'docs/internals/ptx.md',
      'docs/internals/benchmarks.md',
      'docs/internals/differential.md',
      'docs/internals/soak.md',
      'docs/internals/run-times.md',
      'docs/internals/what-others-have.md',
      'docs/internals/glossary.md',
      'docs/internals/dependencies.md',
      'CONTRIBUTING.md',
      'THIRD-PARTY.md',
      'SECURITY.md',
      'CHANGELOG.md',
    ],
  },
]

/** The path of a file's page, without its extension. */
export function pageOf(file) {
  return (
    file
      .replace(/^docs\/index\.md$/, 'contents')
      // Below reference/ TypeDoc's pages stand.
      .replace(/^docs\/reference\//, 'look-up/')
      .replace(/^docs\//, '')
      .replace(/^examples\/(.*)\/README\.md$/, 'examples/$1')
      .replace(/\.md$/, '')
      .toLowerCase()
  )
}
