/** `node --import cuda-streams/cu/register app.js`: files of CUDA C++ can be imported. */
import '../foundation/base/node-version.js'
import '../cu/register-hooks.js'
