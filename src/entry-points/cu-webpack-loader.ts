/** The loader of files of CUDA C++ for webpack and Rspack, which want it as the default export. */
import '../foundation/base/node-version.js'

// biome-ignore lint/style/noDefaultExport: webpack takes no other.
export { type CuLoaderContext, cuLoader as default } from '../cu/webpack-loader.js'
