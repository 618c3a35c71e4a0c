import { createServer } from 'node:http'
import { run } from './program.js'

const server = createServer(async (_, response) => response.end(await run()))
server.listen(Number(process.env.PORT ?? 8080), () => console.log(`http://localhost:${server.address().port}`))
