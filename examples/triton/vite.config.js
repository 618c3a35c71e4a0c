import { cuRollup } from 'cuda-streams/cu'
import { defineConfig } from 'vite'

export default defineConfig({
  plugins: [cuRollup()],
  build: { target: 'es2022' },
})
