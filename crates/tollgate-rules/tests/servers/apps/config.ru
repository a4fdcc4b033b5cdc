# What Rack reads of a request, behind Puma.
require 'rack'

run(lambda do |env|
  request = Rack::Request.new(env)
  route = env['PATH_INFO'][/^\/(login|token)$/, 1] || 'other'
  token = env['HTTP_AUTHORIZATION'].to_s[/\Abearer +(.*)\z/i, 1]
  parts = [route, token, request.cookies['s'], env['HTTP_X_API_KEY']]
  [200, { 'content-type' => 'text/plain' }, [parts.map { |part| part || '-' }.join('|')]]
end)
