/**
 * Who this process is among those that were started together. Launchers tell by environment variables: torchrun by RANK,
 * mpirun of Open MPI by OMPI_COMM_WORLD_RANK, srun by SLURM_PROCID, mpiexec of MPICH and Intel MPI by PMI_RANK.
 */

export interface Place {
  /** From 0 to size - 1, over all machines. */
  readonly rank: number
  readonly size: number
  /** From 0, on this machine: which GPU is ours. */
  readonly localRank: number
  /** Where rank 0 listens. */
  readonly address: string
  readonly port: number
}

type Environment = Readonly<Record<string, string | undefined>>

const LAUNCHERS = [
  { rank: 'RANK', size: 'WORLD_SIZE', localRank: 'LOCAL_RANK' },
  { rank: 'OMPI_COMM_WORLD_RANK', size: 'OMPI_COMM_WORLD_SIZE', localRank: 'OMPI_COMM_WORLD_LOCAL_RANK' },
  { rank: 'PMI_RANK', size: 'PMI_SIZE', localRank: 'MPI_LOCALRANKID' },
  { rank: 'SLURM_PROCID', size: 'SLURM_NTASKS', localRank: 'SLURM_LOCALID' },
] as const

/** torchrun's own default for MASTER_PORT. */
const MASTER_PORT = 29_500

/** A process that no launcher started is the only rank. Throws a RangeError for variables that contradict each other. */
export function placeOf(env: Environment): Place {
  const launcher = LAUNCHERS.find(({ rank, size }) => env[rank] !== undefined && env[size] !== undefined)
  const size = launcher === undefined ? 1 : numberIn(env, launcher.size, 1, 2 ** 20)
  const rank = launcher === undefined ? 0 : numberIn(env, launcher.rank, 0, size - 1)
  const told = launcher !== undefined && env[launcher.localRank] !== undefined
  const localRank = told ? numberIn(env, launcher.localRank, 0, size - 1) : rank
  return { rank, size, localRank, address: env['MASTER_ADDR'] ?? '127.0.0.1', port: portOf(env) }
}

/**
 * At MASTER_PORT itself torchrun's agent listens already (TORCHELASTIC_USE_AGENT_STORE is "True" then), and without one
 * PyTorch's rank 0 would. The next port is ours; RENDEZVOUS_PORT chooses another.
 */
function portOf(env: Environment): number {
  if (env['RENDEZVOUS_PORT'] !== undefined) return numberIn(env, 'RENDEZVOUS_PORT', 1, 65_535)
  const master = env['MASTER_PORT'] === undefined ? MASTER_PORT : numberIn(env, 'MASTER_PORT', 1, 65_535)
  return master === 65_535 ? master - 1 : master + 1
}

function numberIn(env: Environment, name: string, least: number, most: number): number {
  const text = env[name] ?? ''
  const value = Number(text)
  if (text !== '' && Number.isInteger(value) && value >= least && value <= most) return value
  throw new RangeError(`${name} must be a whole number from ${least} to ${most}, not '${text}'`)
}
